// The gradients of a sharded model that are being averaged while its backward continues.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hooks/fsdp/gradient_scatter.h"
#include "parallel/fsdp/reduction_patience.h"
#include "parallel/fsdp/sharded_unit.h"
#include "parallel/shards/flat_parameter.h"
#include "parallel/world/world.h"

namespace hookline {

/// Starts reduce-scatters and hands each result to its unit, in the order of starting. Limits how many are in
/// progress, since each takes memory.
///
/// The caller must start units in the same order on every rank. Not synchronised.
class ReductionQueue {
 public:
  /// `name_of`: what averaging a unit's gradients is called in an error. The World and the units outlive the
  /// queue.
  ReductionQueue(World& world, std::unique_ptr<GradientScatter> scatter,
                 std::function<std::string(const ShardedUnit&)> name_of);

  void begin_backward() { patience_.begin_backward(); }
  /// `gradients`: one for each of the unit's trained flat parameters, or undefined. Throws RunFailed, if it
  /// waits for a reduction and a rank fails.
  void start(ShardedUnit& unit, std::vector<at::Tensor> gradients);
  /// Waits for all that are under way.
  void finish_all();
  /// Waits for all, without using what they result in.
  void forget_all();

  /// By this rank, so far.
  std::int64_t bytes_sent() const { return bytes_sent_; }
  /// What one reduction of it sends.
  std::int64_t bytes_of(const FlatParameter& flat) const;

 private:
  struct Reduction {
    ShardedUnit* unit;
    std::size_t index;  // of the unit's trained flat parameters
    GradientScatter::Started started;
  };

  bool is_soon_over(const Reduction& reduction);
  void finish_oldest();
  void wait_for(const Reduction& reduction);

  World& world_;
  std::unique_ptr<GradientScatter> scatter_;
  std::function<std::string(const ShardedUnit&)> name_of_;
  ReductionPatience patience_;
  std::deque<Reduction> reductions_;
  std::int64_t bytes_sent_ = 0;
};

}  // namespace hookline
