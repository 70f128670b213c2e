// Which parameters are one rank's pieces of larger ones, for whatever keeps tensors beside them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "parallel/flat_parameter.h"
#include "parallel/process_group.h"

namespace hookline {

/// The sharded parameters of a run, by variable. Not synchronised.
class ShardedParameters {
 public:
  explicit ShardedParameters(std::shared_ptr<World> world) : world_(std::move(world)) {}

  void add(const std::shared_ptr<const FlatParameter>& flat);

  bool contains(const at::Tensor& parameter) const;
  /// Of the whole.
  at::IntArrayRef sizes_of(const at::Tensor& parameter) const;
  bool empty() const { return places_.empty(); }
  std::vector<at::Tensor> parameters() const;

  /// Of a tensor kept beside `parameter`, whose `piece` is this rank's [n]: the whole, in the parameter's sizes, on the CPU; on
  /// other ranks than 0 undefined. A tensor beside a parameter that is not sharded is returned as it is. A collective call.
  at::Tensor whole(const at::Tensor& parameter, const at::Tensor& piece) const;
  /// The reverse: this rank's piece of `whole`, [n], in memory of its own. Throws Error if it is not of those sizes.
  at::Tensor piece(const at::Tensor& parameter, const at::Tensor& whole) const;

 private:
  struct Place {
    std::shared_ptr<const FlatParameter> flat;
    std::size_t index;
  };

  std::shared_ptr<World> world_;
  std::map<const void*, Place> places_;
};

}  // namespace hookline
