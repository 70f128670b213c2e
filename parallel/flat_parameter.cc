#include "parallel/flat_parameter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <sstream>
#include <utility>

#include "hooks/error.h"

namespace hookline {
namespace {

/// Each parameter begins where vector instructions like it, as it does in memory of its own.
constexpr std::int64_t kAlignmentBytes = 64;

std::int64_t rounded_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

std::int64_t product(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

/// True if `parameter` is still what set_data(`own`) made of it.
bool is_in(const at::Tensor& parameter, const at::Tensor& own) {
  return parameter.storage().unsafeGetStorageImpl() == own.storage().unsafeGetStorageImpl() &&
         parameter.storage_offset() == own.storage_offset() && parameter.sizes() == own.sizes() &&
         parameter.strides() == own.strides();
}

std::vector<std::int64_t> dense_strides(const at::Tensor& tensor) {
  // Such as channels_last; whatever has gaps or overlaps becomes contiguous.
  return (tensor.is_non_overlapping_and_dense() ? tensor
                                                : at::empty_like(tensor, at::MemoryFormat::Contiguous))
      .strides()
      .vec();
}

}  // namespace

FlatParameter::FlatParameter(std::vector<std::string> names, std::vector<at::Tensor> parameters, int rank,
                             int ranks, std::shared_ptr<BufferPool> pool,
                             const std::function<void(const at::Tensor& whole)>& share)
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
    strides_.push_back(dense_strides(parameter));
    begins_.push_back(end);
    end = rounded_up(end + parameter.numel(), alignment);
  }
  shard_numel_ = std::max(alignment, rounded_up((end + ranks - 1) / ranks, alignment));
  whole_ = at::zeros({shard_numel_ * ranks}, parameters_[0].options().requires_grad(false));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    views_.push_back(place(i, whole_));
    views_[i].copy_(parameters_[i]);
    parameters_[i].mutable_grad() = at::Tensor();
    parameters_[i].set_data(
        at::empty({0}, whole_.options()));  // its memory goes before the next one's is taken
  }
  share(whole_);
  shard_ = whole_.narrow(0, rank * shard_numel_, shard_numel_).clone();
  for (std::size_t i = 0; i < parameters_.size(); ++i) pieces_.push_back(piece_of_shard(i, shard_));
  is_collected_.resize(parameters_.size());
  take_back();
  free();
}

std::size_t FlatParameter::trained() const {
  return static_cast<std::size_t>(std::count_if(parameters_.begin(), parameters_.end(),
                                                [](const at::Tensor& each) { return each.requires_grad(); }));
}

std::int64_t FlatParameter::numel() const {
  return std::transform_reduce(sizes_.begin(), sizes_.end(), std::int64_t{0}, std::plus<>(), product);
}

Share FlatParameter::range_of(std::size_t index, int rank) const {
  const std::int64_t begin = begins_[index], end = begin + product(sizes_[index]);
  const std::int64_t first = std::clamp(rank * shard_numel_, begin, end);
  return {first - begin, std::clamp((rank + 1) * shard_numel_, begin, end) - first};
}

at::Tensor FlatParameter::piece_of_shard(std::size_t index, const at::Tensor& shard) const {
  const Share range = range_of(index, rank_);
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

void FlatParameter::use_whole() { use(true); }
void FlatParameter::use_shard() { use(false); }

void FlatParameter::use(bool whole) {
  const std::vector<at::Tensor>& before = own_memory();
  is_used_whole_ = whole;
  const std::vector<at::Tensor>& after = own_memory();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (is_in(parameters_[i], before[i])) parameters_[i].set_data(after[i]);
}

void FlatParameter::expect_own_memory() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (is_in(parameters_[i], own_memory()[i])) continue;
    throw Error(
        "the parameter '" + names_[i] +
        "' was given other memory after the model was sharded, as torch::load, set_data and Module::to do, "
        "and what it holds would be lost: load the model before prepare(), or inside "
        "summon_full_parameters on every rank; change a parameter's values in place");
  }
}

void FlatParameter::expect_changes_fit() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].sizes() == views_[i].sizes()) continue;
    std::ostringstream text;
    text << "the parameter '" << names_[i] << "' of a sharded model has sizes " << views_[i].sizes()
         << ", and was given " << parameters_[i].sizes()
         << " in summon_full_parameters: load what was saved of the "
         << "same model";
    throw Error(text.str());
  }
}

void FlatParameter::keep_changes() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!is_in(parameters_[i], views_[i])) views_[i].copy_(parameters_[i]);
  shard_.copy_(whole_.narrow(0, rank_ * shard_numel_, shard_numel_));
  take_back();
}

void FlatParameter::take_back() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].set_data(own_memory()[i]);
}

const std::string& FlatParameter::name_of_view(const at::Tensor& view) const {
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), view.storage_offset());
  return names_[static_cast<std::size_t>(next - begins_.begin()) - 1];
}

at::Tensor FlatParameter::place(std::size_t index, const at::Tensor& all) const {
  return all.narrow(0, begins_[index], product(sizes_[index])).as_strided(sizes_[index], strides_[index]);
}

at::Tensor FlatParameter::place_of_gradient(std::size_t index) {
  if (!gradient_.defined()) gradient_ = pool_->empty(whole_.numel(), whole_.options());
  return place(index, gradient_);
}

void FlatParameter::collect_gradient(std::size_t index) {
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = parameters_[index].mutable_grad();
  if (!gradient.defined()) return;  // an autograd function gave none: it counts as zero
  if (is_collected_[index])
    place_of_gradient(index).add_(gradient);
  else
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
