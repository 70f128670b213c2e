// No communication at all.
#pragma once

#include "hooks/comm_hook.h"

namespace hookline {

/// Leaves each rank its own gradients: for measuring what communication costs, or for averaging by other
/// means.
/// Bucket  any                             Wire    nothing
/// Result  the bucket's buffer, untouched  State   none
/// Errors  none at step time               Parity  debugging_hooks.noop_hook
/// Source  none
class Noop : public CommHook {
 public:
  explicit Noop(HookContext context) : CommHook(std::move(context)) {}
  FuturePtr run(GradBucket bucket) override { return completed(bucket.buffer()); }
  std::string describe() const override { return "noop"; }
  std::int64_t bytes_per_step(const std::vector<BucketShapes>&, at::ScalarType) const override { return 0; }
};

}  // namespace hookline
