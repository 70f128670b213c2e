#include "parallel/flat_parameter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace hookline {
namespace {

/// Each parameter begins where vector instructions like it, as it does in memory of its own.
constexpr std::int64_t kAlignmentBytes = 64;

std::int64_t rounded_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

std::int64_t product(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

FlatParameter::FlatParameter(std::vector<std::string> names, std::vector<at::Tensor> parameters, int rank,
                             int ranks, std::shared_ptr<BufferPool> pool)
    : requires_grad_(parameters.at(0).requires_grad()),
      pool_(std::move(pool)),
      names_(std::move(names)),
      parameters_(std::move(parameters)),
      rank_(rank),
      ranks_(ranks) {
  const at::NoGradGuard no_grad;
  const std::int64_t alignment =
      std::max<std::int64_t>(1, kAlignmentBytes / static_cast<std::int64_t>(parameters_[0].itemsize()));
  std::int64_t end = 0;
  for (const at::Tensor& parameter : parameters_) {
    sizes_.push_back(parameter.sizes().vec());
    begins_.push_back(end);
    end = rounded_up(end + parameter.numel(), alignment);
  }
  shard_numel_ = std::max(alignment, rounded_up((end + ranks - 1) / ranks, alignment));
  whole_ = at::zeros({shard_numel_ * ranks}, parameters_[0].options().requires_grad(false));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    views_.push_back(whole_.narrow(0, begins_[i], parameters_[i].numel()).view(sizes_[i]));
    views_[i].copy_(parameters_[i]);
    parameters_[i].mutable_grad() = at::Tensor();
  }
  shard_ = whole_.narrow(0, rank * shard_numel_, shard_numel_).clone();
  for (std::size_t i = 0; i < parameters_.size(); ++i) pieces_.push_back(piece_of_shard(i, shard_));
  is_collected_.resize(parameters_.size());
  use_shard();
  free();
}

std::size_t FlatParameter::trained() const {
  return static_cast<std::size_t>(std::count_if(parameters_.begin(), parameters_.end(),
                                                [](const at::Tensor& each) { return each.requires_grad(); }));
}

std::int64_t FlatParameter::numel() const {
  return std::transform_reduce(sizes_.begin(), sizes_.end(), std::int64_t{0}, std::plus<>(), product);
}

FlatParameter::Range FlatParameter::range_of(std::size_t index, int rank) const {
  const std::int64_t begin = begins_[index], end = begin + product(sizes_[index]);
  const std::int64_t first = std::clamp(rank * shard_numel_, begin, end);
  return {first - begin, std::clamp((rank + 1) * shard_numel_, begin, end) - first};
}

at::Tensor FlatParameter::piece_of_shard(std::size_t index, const at::Tensor& shard) const {
  const Range range = range_of(index, rank_);
  const std::int64_t begin = range.count == 0 ? 0 : begins_[index] + range.first - rank_ * shard_numel_;
  return shard.narrow(0, begin, range.count).variable_data();
}

void FlatParameter::allocate() {
  c10::StorageImpl* storage = whole_.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<std::size_t>(whole_bytes());
  storage->set_data_ptr_noswap(pool_->allocate(bytes, whole_.device()));
  storage->set_nbytes(bytes);
}

void FlatParameter::free() {
  c10::StorageImpl* storage = whole_.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(0));
  storage->set_nbytes(std::size_t{0});
}

bool FlatParameter::is_allocated() const { return whole_.storage().nbytes() > 0; }

void FlatParameter::use_whole() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].set_data(views_[i]);
}

void FlatParameter::use_shard() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].set_data(pieces_[i]);
}

void FlatParameter::keep_changes() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    // torch::load gives a parameter other memory.
    if (!parameters_[i].is_alias_of(views_[i])) views_[i].copy_(parameters_[i]);
  }
  shard_.copy_(whole_.narrow(0, rank_ * shard_numel_, shard_numel_));
}

at::Tensor FlatParameter::place_of_gradient(std::size_t index) {
  if (!gradient_.defined()) gradient_ = pool_->empty(whole_.numel(), whole_.options());
  return gradient_.narrow(0, begins_[index], product(sizes_[index])).view(sizes_[index]);
}

void FlatParameter::collect_gradient(std::size_t index) {
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = parameters_[index].mutable_grad();
  place_of_gradient(index).copy_(gradient);
  gradient.reset();
  is_collected_[index] = true;
}

at::Tensor FlatParameter::take_flat_gradient() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (is_collected_[i]) continue;
    if (parameters_[i].grad().defined())
      collect_gradient(i);
    else
      place_of_gradient(i).zero_();
  }
  // What lies between parameters is sent too, and must be no number that a cast or a sum stumbles over.
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::int64_t end = begins_[i] + product(sizes_[i]);
    const std::int64_t next = i + 1 < begins_.size() ? begins_[i + 1] : gradient_.numel();
    gradient_.narrow(0, end, next - end).zero_();
  }
  is_collected_.assign(parameters_.size(), false);
  return std::exchange(gradient_, at::Tensor());
}

void FlatParameter::forget_gradients() {
  is_collected_.assign(parameters_.size(), false);
  gradient_.reset();
}

}  // namespace hookline
