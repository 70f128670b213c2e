// Parameters laid end to end and cut into one shard a rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hooks/fsdp/buffer_pool.h"

namespace hookline {

/// The parameters of one unit of a sharded model, of one dtype; either all get a gradient, or none does.
///
/// Each is a variable of the module's, which stays the same one, as an optimizer may hold it: between steps its data is this
/// rank's piece of it, flat and maybe empty; while the unit computes, the whole. The whole is a view of memory that is
/// allocated for the time being; what autograd saved of it finds it again, since it is the same storage.
///
/// Knows nothing of other ranks but their number. Not synchronised.
/// Source: Zhao et al. 2023, PyTorch FSDP, arXiv:2304.11277, section 3.2; use_orig_params of
/// torch.distributed.fsdp.FullyShardedDataParallel.
class FlatParameter {
 public:
  /// Elements of one parameter that a rank holds.
  struct Range {
    std::int64_t first = 0, count = 0;
  };

  /// Keeps of `parameters`, equal on all ranks, this rank's pieces, and no gradient that they have.
  FlatParameter(std::vector<std::string> names, std::vector<at::Tensor> parameters, int rank, int ranks,
                std::shared_ptr<BufferPool> pool);

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  /// As it was when this was made.
  bool requires_grad() const { return requires_grad_; }
  /// How many parameters do now: a program may freeze some for a while.
  std::size_t trained() const;
  at::ScalarType dtype() const { return shard_.scalar_type(); }
  std::int64_t whole_bytes() const {
    return shard_numel_ * ranks_ * static_cast<std::int64_t>(shard_.itemsize());
  }
  /// Elements of all parameters, without what is between them.
  std::int64_t numel() const;

  /// This rank's shard, [shard_numel].
  const at::Tensor& shard() const { return shard_; }
  /// Of all ranks, [ranks · shard_numel]: holds memory between allocate() and free().
  const at::Tensor& whole() const { return whole_; }

  void allocate();
  void free();
  bool is_allocated() const;
  /// What the parameters' data is; `whole` must be allocated and filled.
  void use_whole();
  void use_shard();
  /// Takes into the shard what was done to this rank's part of the whole.
  void keep_changes();

  /// Moves the gradient of parameter `index`, whole, to its place among all, in the layout of whole().
  void collect_gradient(std::size_t index);
  /// All gradients, [ranks · shard_numel]: those that were collected and those that parameters still have; zeros where there
  /// is none.
  at::Tensor take_flat_gradient();
  /// Drops what was collected.
  void forget_gradients();
  /// The piece that is this rank's of parameter `index`, of a tensor in the layout of the shard; no view.
  at::Tensor piece_of_shard(std::size_t index, const at::Tensor& shard) const;

  Range range_of(std::size_t index, int rank) const;
  const std::vector<std::int64_t>& sizes(std::size_t index) const { return sizes_[index]; }

 private:
  at::Tensor place_of_gradient(std::size_t index);

  bool requires_grad_;
  std::shared_ptr<BufferPool> pool_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::vector<std::int64_t>> sizes_;
  std::vector<std::int64_t> begins_;  // of each in the whole
  int rank_, ranks_;
  std::int64_t shard_numel_ = 0;
  at::Tensor shard_, whole_;
  at::Tensor gradient_;  // while some have been collected
  std::vector<bool> is_collected_;
  std::vector<at::Tensor> views_;   // of the whole
  std::vector<at::Tensor> pieces_;  // of the shard
};

}  // namespace hookline
