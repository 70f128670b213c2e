// Records which parameters are one rank's piece of a larger one, or are stepped in such pieces, for code that
// keeps tensors by parameter: the state of optimizers, checkpoints.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/even_share.h"
#include "parallel/shards/flat_parameter.h"
#include "parallel/world/world.h"

namespace hookline {

class GradientShares;

/// A parameter for which each rank keeps only its own piece of the optimizer's state.
struct ShardedParameter {
  std::string name;
  at::Tensor parameter;                       // the module's variable
  std::vector<std::int64_t> sizes, strides;   // of the whole, which lies in memory without gaps
  std::function<Share(int rank)> share_of;    // in the order of memory
  std::shared_ptr<GradientShares> gradients;  // of a sharded optimizer; null for a sharded model
  std::size_t index = 0;                      // in `gradients`

  /// Whole between steps, and so is its gradient ([ddp] shard_optimizer); if not, this rank's piece.
  bool is_whole() const { return gradients != nullptr; }
};

/// The elements of `whole` that `share` names, as a view, [share.count]. `whole` must lie in memory as a
/// sharded parameter does.
at::Tensor part_of(const at::Tensor& whole, const Share& share);

/// The sharded parameters of a run, by variable. Not synchronised.
class ShardedParameters {
 public:
  explicit ShardedParameters(std::shared_ptr<World> world) : world_(std::move(world)) {}

  void add(ShardedParameter entry);
  void add(const std::shared_ptr<const FlatParameter>& flat);

  bool contains(const at::Tensor& parameter) const { return find(parameter) != nullptr; }
  /// Null if it is not sharded.
  const ShardedParameter* find(const at::Tensor& parameter) const;
  /// Of the whole.
  at::IntArrayRef sizes_of(const at::Tensor& parameter) const;
  bool empty() const { return entries_.empty(); }
  /// All of them. Either all belong to sharded models, or all to sharded optimizers.
  std::vector<at::Tensor> parameters() const;

  /// The piece of the gradient of `parameter` that this rank's optimizer is to step by; a view. `parameter`
  /// is sharded and has a gradient.
  at::Tensor gradient_piece(const at::Tensor& parameter) const;

  /// Gathers a tensor kept beside `parameter`, of which `piece`, [n], is this rank's part. Returns it whole,
  /// in the parameter's sizes, on the CPU, on rank 0, and undefined on the others. If `parameter` is not
  /// sharded, returns `piece` as it is. A collective call. Throws Error if `piece` does not have as many
  /// elements as this rank's share.
  at::Tensor whole(const at::Tensor& parameter, const at::Tensor& piece) const;
  /// The reverse: this rank's piece of `whole`, [n], in memory of its own. `parameter` is sharded. Throws
  /// Error if `whole` does not have the sizes of the whole parameter.
  at::Tensor piece(const at::Tensor& parameter, const at::Tensor& whole) const;

 private:
  std::shared_ptr<World> world_;
  std::map<const void*, ShardedParameter> entries_;
};

}  // namespace hookline
