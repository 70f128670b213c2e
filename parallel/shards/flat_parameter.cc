#include "parallel/shards/flat_parameter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace hookline {
namespace {

/// Parameters are aligned for vector instructions, as in memory of their own.
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

std::string outside_message(const std::string& parameter, const std::string& unit) {
  const std::string start = "the parameter '" + parameter +
                            "', or a view of it that was kept, is used while the parameter is not gathered: "
                            "outside of the forward and the "
                            "backward of ";
  if (unit.empty()) return start + "the model. Use it in the model's forward, or inside summon_full_params";
  return start + "its unit '" + unit +
         "'. Register it in each module that uses it, so that it stays whole throughout a step, or read it "
         "inside summon_full_params";
}

std::string piece_message(const std::string& parameter) {
  return "this rank's piece of the parameter '" + parameter +
         "', which the program took between two steps and kept, is used in a forward or a backward: use the "
         "parameter "
         "itself";
}

std::string former_message(const std::string& parameter) {
  return "a tensor that was made before prepare() from the parameter '" + parameter +
         "' is used, but its memory is gone: a sharded model's parameters lie elsewhere. "
         "Make a view in the forward that uses it; to keep values, make a copy, such as weight.clone()";
}

std::vector<std::int64_t> dense_strides(const at::Tensor& tensor) {
  // Keeps dense layouts such as channels_last; a tensor with gaps or overlaps becomes contiguous.
  return (tensor.is_non_overlapping_and_dense() ? tensor
                                                : at::empty_like(tensor, at::MemoryFormat::Contiguous))
      .strides()
      .vec();
}

}  // namespace

FlatParameter::FlatParameter(const std::string& unit, std::vector<std::string> names,
                             std::vector<at::Tensor> parameters, int rank, int ranks,
                             std::shared_ptr<BufferPool> pool,
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
    wholes_.emplace_back(sizes_[i], strides_[i], whole_.options(), outside_message(names_[i], unit));
    place(i, whole_).copy_(parameters_[i]);
    parameters_[i].mutable_grad() = at::Tensor();
    const c10::Storage former = parameters_[i].storage();
    parameters_[i].set_data(at::empty({0}, whole_.options()));  // frees its former memory
    // Other tensors that use the former memory fail from now on, unless the parameter is frozen (its values
    // there stay valid) or the memory holds more than this parameter.
    const bool is_all = former.nbytes() == static_cast<std::size_t>(product(sizes_[i])) * whole_.itemsize();
    if (former.use_count() > 1 && requires_grad_ && is_all)
      close_for_good(*former.unsafeGetStorageImpl(), former_message(names_[i]));
  }
  share(whole_);
  shard_ = whole_.narrow(0, rank * shard_numel_, shard_numel_).clone();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::int64_t count = range_of(i, rank_).count;
    pieces_.emplace_back(at::IntArrayRef(count), at::IntArrayRef(1), shard_.options(),
                         piece_message(names_[i]));
    pieces_[i].open(shard_, begin_in_shard(i));
  }
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

std::int64_t FlatParameter::begin_in_shard(std::size_t index) const {
  const Share range = range_of(index, rank_);
  return range.count == 0 ? 0 : begins_[index] + range.first - rank_ * shard_numel_;
}

at::Tensor FlatParameter::piece_of_shard(std::size_t index, const at::Tensor& shard) const {
  return shard.narrow(0, begin_in_shard(index), range_of(index, rank_).count).variable_data();
}

void FlatParameter::allocate() {
  c10::StorageImpl* storage = whole_.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<std::size_t>(whole_bytes());
  storage->set_data_ptr_noswap(pool_->allocate(bytes, whole_.device()));
  storage->set_nbytes(bytes);
}

void FlatParameter::open() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) wholes_[i].open(whole_, begins_[i]);
}

void FlatParameter::free() {
  for (MemoryWindow& whole : wholes_) whole.close();
  c10::StorageImpl* storage = whole_.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(0));
  storage->set_nbytes(std::size_t{0});
}

bool FlatParameter::is_allocated() const { return whole_.storage().nbytes() > 0; }

void FlatParameter::use(bool whole) {
  if (is_used_whole_ == whole) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& after = (whole ? wholes_ : pieces_)[i].tensor();
    if (is_in(parameters_[i], own_memory(i))) parameters_[i].set_data(after);
    if (whole)
      pieces_[i].close();
    else
      pieces_[i].open(shard_, begin_in_shard(i));
  }
  is_used_whole_ = whole;
}

void FlatParameter::expect_own_memory() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (is_in(parameters_[i], own_memory(i))) continue;
    throw Error(
        "the parameter '" + names_[i] +
        "' was given other memory after the model was sharded, as torch::load, set_data and Module::to do, "
        "and what it holds would be lost: load the model before prepare(), or inside "
        "summon_full_params on every rank; change a parameter's values in place");
  }
}

void FlatParameter::expect_changes_fit() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].sizes() == at::IntArrayRef(sizes_[i])) continue;
    std::ostringstream text;
    text << "the parameter '" << names_[i] << "' of a sharded model has sizes " << at::IntArrayRef(sizes_[i])
         << ", and was given " << parameters_[i].sizes()
         << " in summon_full_params: load what was saved from the "
         << "same model";
    throw Error(text.str());
  }
}

void FlatParameter::keep_changes() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!is_in(parameters_[i], wholes_[i].tensor())) place(i, whole_).copy_(parameters_[i]);
  shard_.copy_(whole_.narrow(0, rank_ * shard_numel_, shard_numel_));
  take_back();
}

void FlatParameter::take_back() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].set_data(own_memory(i));
}

bool FlatParameter::is_own_message(const std::string& message) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (message == wholes_[i].message() || message == pieces_[i].message() ||
        message == former_message(names_[i]))
      return true;
  return false;
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
  if (!gradient.defined()) return;  // an autograd function returned none: it counts as zero
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
  // The gaps between parameters are sent, too, and must not hold values that disturb a cast or a sum.
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
