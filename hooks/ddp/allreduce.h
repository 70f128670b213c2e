// The plain average.
#pragma once

#include "hooks/comm_hook.h"

namespace hookline {

/// Averages gradients in their own precision: divides by the world size, then sums.
/// Bucket  1-D floating, numel n           Wire    n elements a rank into the collective
/// Result  the bucket's buffer, in place   State   none
/// Errors  none at step time               Parity  default_hooks.allreduce_hook
/// Source  none
class Allreduce : public CommHook {
 public:
  explicit Allreduce(HookContext context) : CommHook(std::move(context)) {}
  FuturePtr run(GradBucket bucket) override;
  std::string describe() const override { return "allreduce"; }
};

}  // namespace hookline
