#include "parallel/sharded_parameters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "hooks/error.h"

namespace hookline {

void ShardedParameters::add(const std::shared_ptr<const FlatParameter>& flat) {
  for (std::size_t i = 0; i < flat->parameters().size(); ++i)
    places_[flat->parameters()[i].unsafeGetTensorImpl()] = {flat, i};
}

bool ShardedParameters::contains(const at::Tensor& parameter) const {
  return places_.contains(parameter.unsafeGetTensorImpl());
}

std::vector<at::Tensor> ShardedParameters::parameters() const {
  std::vector<at::Tensor> all;
  for (const auto& [key, place] : places_) all.push_back(place.flat->parameters()[place.index]);
  return all;
}

at::IntArrayRef ShardedParameters::sizes_of(const at::Tensor& parameter) const {
  const auto place = places_.find(parameter.unsafeGetTensorImpl());
  return place == places_.end() ? parameter.sizes() : place->second.flat->sizes(place->second.index);
}

at::Tensor ShardedParameters::whole(const at::Tensor& parameter, const at::Tensor& piece) const {
  const auto place = places_.find(parameter.unsafeGetTensorImpl());
  if (place == places_.end()) return piece;
  const auto& [flat, index] = place->second;
  const at::NoGradGuard no_grad;
  std::int64_t longest = 0;
  for (int rank = 0; rank < world_->size(); ++rank)
    longest = std::max(longest, flat->range_of(index, rank).count);
  at::Tensor padded = at::zeros({longest}, piece.options().requires_grad(false));
  padded.narrow(0, 0, piece.numel()).copy_(piece.detach());
  const std::vector<at::Tensor> all = world_->all_gather(padded);
  if (world_->rank() != 0) return {};
  std::vector<at::Tensor> pieces;
  for (int rank = 0; rank < world_->size(); ++rank)
    pieces.push_back(all[static_cast<std::size_t>(rank)].narrow(0, 0, flat->range_of(index, rank).count));
  return at::cat(pieces).as_strided(flat->sizes(index), flat->strides(index)).contiguous().cpu();
}

at::Tensor ShardedParameters::piece(const at::Tensor& parameter, const at::Tensor& whole) const {
  const auto& [flat, index] = places_.at(parameter.unsafeGetTensorImpl());
  if (whole.sizes() != sizes_of(parameter)) {
    std::ostringstream text;
    text << "what it keeps of '" << flat->names()[index] << "' is " << whole.sizes()
         << " there, and the parameter " << sizes_of(parameter) << " here";
    throw Error(text.str());
  }
  const FlatParameter::Range range = flat->range_of(index, world_->rank());
  const at::NoGradGuard no_grad;
  const at::Tensor in_memory =
      at::empty_strided(whole.sizes(), flat->strides(index), whole.options().requires_grad(false))
          .copy_(whole);
  return in_memory.as_strided({whole.numel()}, {1})
      .narrow(0, range.first, range.count)
      .to(parameter.device())
      .clone();
}

}  // namespace hookline
