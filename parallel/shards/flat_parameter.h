// Parameters laid end to end and cut into one shard per rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/even_share.h"
#include "hooks/fsdp/buffer_pool.h"
#include "parallel/tensors/memory_window.h"

namespace hookline {

/// The parameters of one unit of a sharded model, of one dtype. When it is made, either all of them
/// require a gradient or none does.
///
/// The module's variables stay the same objects, since an optimizer may hold them. Between steps, a
/// variable's data is this rank's piece of the parameter: flat, and possibly empty. While the model computes,
/// the variable's data is the whole parameter, whose memory exists only while the unit computes. Tensors
/// that autograd saved share the whole parameter's storage, so they are usable again once its memory is back.
/// Using any view of the whole parameter while its memory is freed throws; so does using a view of the piece
/// while the variable is whole.
///
/// Does not communicate. Not synchronised.
/// Source: Zhao et al. 2023, PyTorch FSDP, arXiv:2304.11277, section 3.2; use_orig_params of
/// torch.distributed.fsdp.FullyShardedDataParallel.
class FlatParameter {
 public:
  /// Cuts `parameters` down to this rank's pieces and drops their gradients. `unit` is the unit's name, for
  /// errors. `share` broadcasts rank 0's values of all parameters at once. Existing views of a parameter that
  /// requires a gradient become unusable, unless its former memory holds more than this parameter.
  FlatParameter(const std::string& unit, std::vector<std::string> names, std::vector<at::Tensor> parameters,
                int rank, int ranks, std::shared_ptr<BufferPool> pool,
                const std::function<void(const at::Tensor& whole)>& share);

  const std::vector<std::string>& names() const { return names_; }
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  /// As it was when this was made.
  bool requires_grad() const { return requires_grad_; }
  /// Number of parameters that require a gradient now: a program may freeze some for a while.
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
  /// Makes the whole parameters usable. Call it once whole() is allocated and has been filled.
  void open();
  void free();
  bool is_allocated() const;
  /// Sets the parameters' data: to the whole, which can be used while it is open, or to this rank's pieces.
  /// If the program has given a parameter other memory, it keeps that memory, for expect_own_memory() to
  /// find.
  void use_whole() { use(true); }
  void use_pieces() { use(false); }
  /// Throws Error, naming the parameter, if one no longer uses the memory set here, as after torch::load.
  void expect_own_memory() const;

  /// While whole: throws Error, which names it, if a parameter has memory of other sizes.
  void expect_changes_fit() const;
  /// Copies changes of this rank's part of the whole into the shard, also where a parameter was given other
  /// memory.
  void keep_changes();
  /// Gives parameters their own memory again.
  void take_back();
  /// What the whole of parameter `index` lies in.
  const c10::StorageImpl* storage_of(std::size_t index) const {
    return wholes_[index].tensor().storage().unsafeGetStorageImpl();
  }
  /// True if `message` is the error of using a parameter's memory at the wrong time.
  bool is_own_message(const std::string& message) const;

  /// Moves the whole gradient of parameter `index` to its place in the flat gradient, which is laid out like
  /// whole(). If one is there already, adds to it.
  void collect_gradient(std::size_t index);
  /// All gradients, [ranks · shard_numel]: those that were collected and those that parameters still have;
  /// zeros where there is none.
  at::Tensor take_flat_gradient();
  /// Drops what was collected.
  void forget_gradients();
  /// This rank's piece of parameter `index` in `shard`, a tensor in the layout of the shard. It shares the
  /// memory of `shard`, but autograd does not see it as a view.
  at::Tensor piece_of_shard(std::size_t index, const at::Tensor& shard) const;

  /// Which elements of a parameter a rank holds.
  Share range_of(std::size_t index, int rank) const;
  const std::vector<std::int64_t>& sizes(std::size_t index) const { return sizes_[index]; }
  /// Of the whole parameter, which lies in memory without gaps.
  const std::vector<std::int64_t>& strides(std::size_t index) const { return strides_[index]; }

 private:
  const at::Tensor& own_memory(std::size_t index) const {
    return (is_used_whole_ ? wholes_ : pieces_)[index].tensor();
  }
  void use(bool whole);
  /// Where this rank's piece of parameter `index` begins in its shard.
  std::int64_t begin_in_shard(std::size_t index) const;
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
  std::vector<MemoryWindow> wholes_, pieces_;  // onto whole_ and shard_
};

}  // namespace hookline
