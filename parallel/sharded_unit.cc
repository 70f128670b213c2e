#include "parallel/sharded_unit.h"

#include <ATen/core/grad_mode.h>

#include <utility>

namespace hookline {

ShardedUnit::ShardedUnit(std::string name, std::vector<std::shared_ptr<FlatParameter>> flats,
                         ProcessGroupPtr group, bool gathers_in_group)
    : name_(std::move(name)),
      flats_(std::move(flats)),
      group_(std::move(group)),
      gathers_in_group_(gathers_in_group) {
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

bool ShardedUnit::start_gather() {
  if (is_allocated_) return false;
  const at::NoGradGuard no_grad;
  is_allocated_ = true;
  for (const auto& flat : flats_) {
    flat->allocate();
    at::Tensor whole = flat->whole(), shard = flat->shard();
    if (gathers_in_group_) {
      gathering_.push_back(group_->_allgather_base(whole, shard));
      continue;
    }
    // Gloo's all-gather goes by way of a copy of the whole; broadcasts of the shards end in their places.
    const std::vector<at::Tensor> places = whole.chunk(group_->getSize());
    places[static_cast<std::size_t>(group_->getRank())].copy_(shard);
    for (int rank = 0; group_->getSize() > 1 && rank < group_->getSize(); ++rank) {
      std::vector<at::Tensor> place{places[static_cast<std::size_t>(rank)]};
      c10d::BroadcastOptions options;
      options.rootRank = rank;
      gathering_.push_back(group_->broadcast(place, options));
    }
  }
  return true;
}

void ShardedUnit::finish_gather(World& world, const std::string& what) {
  // What is not waited for to its end still writes: it stays in the list then, and its memory is not given back.
  for (; !gathering_.empty(); gathering_.pop_back()) world.wait(gathering_.back(), what);
  if (std::exchange(is_whole_, true)) return;
  for (const auto& flat : flats_) flat->use_whole();
}

void ShardedUnit::release(World& world) {
  if (!is_allocated_) return;
  finish_gather(world, "gathering the parameters of '" + name_ + "'");
  for (const auto& flat : flats_) {
    flat->use_shard();
    flat->free();
  }
  is_whole_ = false;
  is_allocated_ = false;
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

/// Parameters have the gradients that were put aside.
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
    if (!parameter.requires_grad()) continue;  // frozen for a while
    const at::Tensor piece = flat.piece_of_shard(i, shard);
    at::Tensor& gradient = parameter.mutable_grad();
    gradient = gradient.defined() ? piece.add_(gradient) : piece;
  }
}

}  // namespace hookline
