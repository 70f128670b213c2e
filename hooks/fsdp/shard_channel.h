// How the parameters and gradients of a sharded model, or optimizer, move between ranks.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <cstdint>
#include <string>

namespace hookline {

/// What one collective of a sharded model, or optimizer, is: the ranks compare it before they move anything.
struct ShardOperation {
  enum class Kind : std::int64_t {
    gather_for_forward,
    gather_for_evaluation,  // a forward without gradients
    gather_for_backward,
    gather_for_summon,
    scatter,
    gather_after_step,  // of a sharded optimizer
  };
  Kind kind = Kind::gather_for_forward;
  // For a sharded optimizer, `unit` and `flat` hold other values, which must be equal on all ranks, too.
  std::int64_t unit = 0;  // its position among the model's
  std::int64_t flat = 0;  // which of the unit's flat parameters

  bool operator==(const ShardOperation&) const = default;
};

/// A collective under way.
struct ShardWork {
  c10::intrusive_ptr<c10d::Work> work;  // null: there is nothing to wait for
  std::string sequence;                 // of calls that every rank makes in the same order
  std::int64_t number = 0;              // of this one in it
};

/// Collectives that start in the same order on every rank. Where two ranks start different ones, the work
/// fails on every rank with RanksDiffer, which names what each rank started.
///
/// Not synchronised. Keeps tensors alive as long as it uses their memory.
class ShardChannel {
 public:
  virtual ~ShardChannel() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// True if reduce_scatter() works, for every dtype; scatter_addends() works otherwise.
  virtual bool sums() const = 0;
  /// Number of rows that scatter_addends() receives for elements of `dtype`: one per rank; or one per host,
  /// in the order of hosts, if the ranks of a host sum their parts first.
  virtual std::int64_t addends(at::ScalarType dtype) const = 0;

  /// Fills `whole`, [size() · n], with every rank's `shard`, [n].
  virtual ShardWork all_gather(const ShardOperation& operation, const at::Tensor& whole,
                               const at::Tensor& shard) = 0;
  /// Fills `received`, laid out as [addends(), n], with rows whose sum is the sum of all ranks' parts for
  /// this rank. `sent`, [size() · n], holds one part for each rank; its contents are lost. Half precision is
  /// summed in float32, and rounded once on each host.
  virtual ShardWork scatter_addends(const ShardOperation& operation, const at::Tensor& received,
                                    const at::Tensor& sent) = 0;
  /// Fills `received`, [n], with the sum of those parts.
  virtual ShardWork reduce_scatter(const ShardOperation& operation, const at::Tensor& received,
                                   const at::Tensor& sent) = 0;
};

}  // namespace hookline
