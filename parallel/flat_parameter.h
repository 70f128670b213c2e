// Parameters laid end to end and cut into one shard a rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hooks/even_share.h"
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
  /// Keeps of `parameters` this rank's pieces, and no gradient that they have. `share`: gives a whole the values of rank 0.
  FlatParameter(std::vector<std::string> names, std::vector<at::Tensor> parameters, int rank, int ranks,
                std::shared_ptr<BufferPool> pool, const std::function<void(const at::Tensor& whole)>& share);

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
  /// What the parameters' data is; `whole` must be allocated and filled. A parameter that has been given other memory since
  /// keeps that, for expect_own_memory() to find.
  void use_whole();
  void use_shard();
  /// Throws Error, which names it, if a parameter has other memory, as torch::load gives it.
  void expect_own_memory() const;

  /// While whole: throws Error, which names it, if a parameter has memory of other sizes.
  void expect_changes_fit() const;
  /// Takes into the shard what was done to this rank's part of the whole, also in other memory.
  void keep_changes();
  /// Gives parameters their own memory again.
  void take_back();
  /// Of the parameter whose memory `view` begins in.
  const std::string& name_of_view(const at::Tensor& view) const;

  /// Moves the gradient of parameter `index`, whole, to its place among all, in the layout of whole(); adds it to one that is
  /// there.
  void collect_gradient(std::size_t index);
  /// All gradients, [ranks · shard_numel]: those that were collected and those that parameters still have; zeros where there
  /// is none.
  at::Tensor take_flat_gradient();
  /// Drops what was collected.
  void forget_gradients();
  /// The piece that is this rank's of parameter `index`, of a tensor in the layout of the shard; no view.
  at::Tensor piece_of_shard(std::size_t index, const at::Tensor& shard) const;

  /// Which elements of a parameter a rank holds.
  Share range_of(std::size_t index, int rank) const;
  const std::vector<std::int64_t>& sizes(std::size_t index) const { return sizes_[index]; }
  /// Of the whole parameter, which lies in memory without gaps.
  const std::vector<std::int64_t>& strides(std::size_t index) const { return strides_[index]; }

 private:
  const std::vector<at::Tensor>& own_memory() const { return is_used_whole_ ? views_ : pieces_; }
  void use(bool whole);
  /// Where parameter `index` is in a tensor that lies as whole() does.
  at::Tensor place(std::size_t index, const at::Tensor& all) const;
  at::Tensor place_of_gradient(std::size_t index);

  bool requires_grad_;
  std::shared_ptr<BufferPool> pool_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::vector<std::int64_t>> sizes_, strides_;
  std::vector<std::int64_t> begins_;  // of each in the whole
  int rank_, ranks_;
  std::int64_t shard_numel_ = 0;
  at::Tensor shard_, whole_;
  at::Tensor gradient_;  // while some have been collected
  std::vector<bool> is_collected_;
  bool is_used_whole_ = false;
  std::vector<at::Tensor> views_;   // of the whole
  std::vector<at::Tensor> pieces_;  // of the shard
};

}  // namespace hookline
