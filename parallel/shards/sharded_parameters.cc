#include "parallel/shards/sharded_parameters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/text/count_text.h"
#include "parallel/shards/gradient_shares.h"

namespace hookline {
at::Tensor part_of(const at::Tensor& whole, const Share& share) {
  return whole.as_strided({share.count}, {1}, whole.storage_offset() + share.first);
}

void ShardedParameters::add(ShardedParameter entry) {
  const void* const key = entry.parameter.unsafeGetTensorImpl();
  entries_[key] = std::move(entry);
}

void ShardedParameters::add(const std::shared_ptr<const FlatParameter>& flat) {
  for (std::size_t i = 0; i < flat->parameters().size(); ++i)
    add({flat->names()[i], flat->parameters()[i], flat->sizes(i), flat->strides(i),
         [flat, i](int rank) { return flat->range_of(i, rank); }, nullptr});
}

const ShardedParameter* ShardedParameters::find(const at::Tensor& parameter) const {
  const auto found = entries_.find(parameter.unsafeGetTensorImpl());
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<at::Tensor> ShardedParameters::parameters() const {
  std::vector<at::Tensor> all;
  for (const auto& [key, entry] : entries_) all.push_back(entry.parameter);
  return all;
}

at::IntArrayRef ShardedParameters::sizes_of(const at::Tensor& parameter) const {
  const ShardedParameter* const entry = find(parameter);
  return entry ? at::IntArrayRef(entry->sizes) : parameter.sizes();
}

at::Tensor ShardedParameters::gradient_piece(const at::Tensor& parameter) const {
  const ShardedParameter& entry = *find(parameter);
  return entry.is_whole() ? entry.gradients->piece(entry.index) : parameter.grad().detach();
}

at::Tensor ShardedParameters::whole(const at::Tensor& parameter, const at::Tensor& piece) const {
  const ShardedParameter* const entry = find(parameter);
  if (!entry) return piece;
  const at::NoGradGuard no_grad;
  const std::int64_t own = entry->share_of(world_->rank()).count;
  if (piece.numel() != own)
    throw Error("the optimizer's state of '" + entry->name + "' has " + count_text(piece.numel(), "element") +
                ", but this rank's share of the parameter has " + std::to_string(own) +
                ": call step() on what prepare() returned, not on the optimizer that was passed to it");
  std::int64_t longest = 0;
  for (int rank = 0; rank < world_->size(); ++rank) longest = std::max(longest, entry->share_of(rank).count);
  at::Tensor padded = at::zeros({longest}, piece.options().requires_grad(false));
  padded.narrow(0, 0, own).copy_(piece.detach().flatten());
  const std::vector<at::Tensor> all = world_->all_gather(padded);
  if (world_->rank() != 0) return {};
  std::vector<at::Tensor> pieces;
  for (int rank = 0; rank < world_->size(); ++rank)
    pieces.push_back(all[static_cast<std::size_t>(rank)].narrow(0, 0, entry->share_of(rank).count));
  return at::cat(pieces).as_strided(entry->sizes, entry->strides).contiguous().cpu();
}

at::Tensor ShardedParameters::piece(const at::Tensor& parameter, const at::Tensor& whole) const {
  const ShardedParameter& entry = *find(parameter);
  if (whole.sizes() != sizes_of(parameter)) {
    std::ostringstream text;
    text << "its state of '" << entry.name << "' has sizes " << whole.sizes()
         << ", and the program's parameter has sizes " << sizes_of(parameter);
    throw Error(text.str());
  }
  const at::NoGradGuard no_grad;
  const at::Tensor in_memory =
      at::empty_strided(whole.sizes(), entry.strides, whole.options().requires_grad(false)).copy_(whole);
  return part_of(in_memory, entry.share_of(world_->rank())).to(parameter.device()).clone();
}

}  // namespace hookline
