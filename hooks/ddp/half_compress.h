// The average in half precision.
#pragma once

#include <algorithm>

#include "hooks/comm_hook.h"
#include "hooks/per_bucket.h"

namespace hookline {

/// Averages gradients in float16 or bfloat16: casts, divides in low precision, sums, and copies back. On CPUs
/// piece by piece, so that one is cast and another copied back while a third is on the wire.
/// Bucket  1-D floating, numel n           Wire    2n bytes a rank into the collective
/// Result  the bucket's buffer and dtype   State   2n bytes, to be sent
/// Errors  none at step time               Parity  default_hooks.fp16_compress_hook, bf16_compress_hook
/// Source  none
class HalfCompress : public CommHook {
 public:
  HalfCompress(HookContext context, at::ScalarType dtype) : CommHook(std::move(context)), dtype_(dtype) {}
  FuturePtr run(GradBucket bucket) override;
  std::string describe() const override { return dtype_ == at::kHalf ? "fp16" : "bf16"; }
  std::int64_t bytes_per_step(const std::vector<BucketShapes>& buckets, at::ScalarType) const override {
    return CommHook::bytes_per_step(buckets, dtype_);
  }
  double tolerance(at::ScalarType dtype) const override {
    return std::max(tolerance_of_average(dtype_), tolerance_of_average(dtype));
  }

 private:
  at::ScalarType dtype_;
  BucketBuffers buffers_;
};

}  // namespace hookline
