// The process group that a Reducer is given: its waiting ends when any rank fails.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <memory>
#include <string>
#include <vector>

#include "hooks/comm.h"
#include "parallel/ddp/gradient_steps.h"
#include "parallel/world/world.h"

namespace hookline {

/// The two collectives that a c10d::Reducer starts by itself, each completed by the World's FailureWatch.
/// Buckets of a model without a hook are all-reduced through the Comm that a hook would use, and their bytes
/// are counted there. The Reducer has already divided the gradients by the number of ranks.
class WatchedGroup : public c10d::ProcessGroup {
 public:
  WatchedGroup(std::shared_ptr<World> world, std::shared_ptr<Comm> comm,
               std::shared_ptr<GradientSteps> steps);

  /// One tensor: a bucket, or the map of used parameters (integers).
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  /// The order and the sizes of rebuilt buckets.
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;

 private:
  std::shared_ptr<World> world_;
  std::shared_ptr<Comm> comm_;
  std::shared_ptr<GradientSteps> steps_;
};

}  // namespace hookline
