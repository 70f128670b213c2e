#include "parallel/fsdp/sharded_unit.h"

#include <ATen/core/grad_mode.h>

#include <utility>

namespace hookline {

ShardedUnit::ShardedUnit(std::string name, std::size_t position,
                         std::vector<std::shared_ptr<FlatParameter>> flats,
                         std::shared_ptr<ShardChannel> channel)
    : name_(std::move(name)), flats_(std::move(flats)), position_(position), channel_(std::move(channel)) {
  for (const auto& flat : flats_)
    if (flat->requires_grad()) trained_flats_.push_back(flat);
}

template <class Action>
void ShardedUnit::for_each_trained(const Action& action) {
  for (const auto& flat : trained_flats_) {
    for (std::size_t i = 0; i < flat->parameters().size(); ++i) {
      at::Tensor parameter = flat->parameters()[i];
      action(flat->names()[i], parameter.mutable_grad());
    }
  }
}

std::int64_t ShardedUnit::whole_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& flat : flats_) bytes += flat->whole_bytes();
  return bytes;
}

bool ShardedUnit::start_gather(ShardOperation::Kind kind) {
  if (is_allocated_) return false;
  const at::NoGradGuard no_grad;
  is_allocated_ = true;
  for (std::size_t i = 0; i < flats_.size(); ++i) {
    flats_[i]->allocate();
    const ShardOperation operation{kind, static_cast<std::int64_t>(position_), static_cast<std::int64_t>(i)};
    ShardWork started = channel_->all_gather(operation, flats_[i]->whole(), flats_[i]->shard());
    if (started.work) gathering_.push_back(std::move(started));
  }
  return true;
}

void ShardedUnit::finish_gather(World& world, const std::string& what) {
  const at::NoGradGuard no_grad;
  // A gather that does not complete may still write: it stays in the list, and its memory is not released.
  for (; !gathering_.empty(); gathering_.pop_back())
    world.wait_for_all(gathering_.back().work, gathering_.back().sequence, gathering_.back().number, what);
  if (std::exchange(is_whole_, true)) return;
  for (const auto& flat : flats_) {
    flat->open();
    flat->use_whole();
  }
}

void ShardedUnit::release(World& world) {
  if (!is_allocated_) return;
  finish_gather(world, "gathering the parameters of '" + name_ + "'");
  for (const auto& flat : flats_) flat->free();
  is_whole_ = false;
  is_allocated_ = false;
}

void ShardedUnit::use_wholes() {
  for (const auto& flat : flats_) flat->use_whole();
}

void ShardedUnit::use_pieces() {
  for (const auto& flat : flats_) flat->use_pieces();
}

void ShardedUnit::expect_own_memory() const {
  for (const auto& flat : flats_) flat->expect_own_memory();
}

void ShardedUnit::expect_changes_fit() const {
  for (const auto& flat : flats_) flat->expect_changes_fit();
}

void ShardedUnit::drop_changes() {
  if (!is_whole_) return;
  for (const auto& flat : flats_) flat->take_back();
}

void ShardedUnit::keep_changes() {
  for (const auto& flat : flats_) flat->keep_changes();
}

void ShardedUnit::begin_backward() {
  if (std::exchange(in_backward_, true)) return;
  for_each_trained([this](const std::string& name, at::Tensor& gradient) {
    if (gradient.defined()) put_aside_[name] = std::exchange(gradient, at::Tensor());
    if (const auto waiting = waiting_.find(name); waiting != waiting_.end()) gradient = waiting->second;
  });
  waiting_.clear();
}

bool ShardedUnit::trains() const { return trained() > 0; }

std::size_t ShardedUnit::trained() const {
  std::size_t count = 0;
  for (const auto& flat : trained_flats_) count += flat->trained();
  return count;
}

std::vector<at::Tensor> ShardedUnit::take_gradients() {
  std::vector<at::Tensor> gradients;
  for (const auto& flat : trained_flats_)
    gradients.push_back(flat->trained() > 0 ? flat->take_flat_gradient() : at::Tensor());
  end_backward();
  return gradients;
}

void ShardedUnit::keep_gradients() {
  for_each_trained([this](const std::string& name, at::Tensor& gradient) {
    if (gradient.defined()) waiting_[name] = gradient;
  });
  end_backward();
}

void ShardedUnit::forget_backward() {
  waiting_.clear();
  if (!in_backward_) return;
  for (const auto& flat : trained_flats_) flat->forget_gradients();
  end_backward();
}

/// Gives the parameters back the gradients that were put aside.
void ShardedUnit::end_backward() {
  for_each_trained([this](const std::string& name, at::Tensor& gradient) {
    const auto before = put_aside_.find(name);
    gradient = before == put_aside_.end() ? at::Tensor() : before->second;
  });
  put_aside_.clear();
  in_backward_ = false;
}

void ShardedUnit::add_gradient(std::size_t index, const at::Tensor& shard) {
  const at::NoGradGuard no_grad;
  const FlatParameter& flat = *trained_flats_[index];
  for (std::size_t i = 0; i < flat.parameters().size(); ++i) {
    at::Tensor parameter = flat.parameters()[i];
    if (!parameter.requires_grad()) continue;  // frozen since the model was prepared
    const at::Tensor piece = flat.piece_of_shard(i, shard);
    // While a backward runs, `grad` holds the gradients of that round, and the ones to add to are put aside.
    at::Tensor& gradient = in_backward_ ? put_aside_[flat.names()[i]] : parameter.mutable_grad();
    gradient = gradient.defined() ? piece.add_(gradient) : piece;
  }
}

}  // namespace hookline
