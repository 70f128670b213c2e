// Runs any hook in half precision.
#pragma once

#include <algorithm>
#include <memory>

#include "hooks/comm_hook.h"
#include "hooks/per_bucket.h"

namespace hookline {

/// Hands the inner hook a bucket cast to float16 or bfloat16 and casts its result back. Whatever state the
/// inner hook keeps (PowerSGD's P, Q and error feedback) is then in low precision too.
/// Bucket  1-D floating, numel n           Wire    what the inner hook sends for 2n bytes
/// Result  the bucket's buffer and dtype   State   the inner hook's, and 2n bytes for the cast
/// Errors  the inner hook's                Parity  default_hooks.fp16_compress_wrapper, bf16_compress_wrapper
/// Source  none
class HalfWrapper : public CommHook {
 public:
  HalfWrapper(std::unique_ptr<CommHook> inner, at::ScalarType dtype);
  FuturePtr run(GradBucket bucket) override;
  std::string describe() const override;
  std::int64_t bytes_per_step(const std::vector<BucketShapes>& buckets, at::ScalarType) const override {
    return inner_->bytes_per_step(buckets, dtype_);
  }
  double tolerance(at::ScalarType dtype) const override {
    return std::max(inner_->tolerance(dtype_), tolerance_of_average(dtype));
  }
  std::int64_t first_full_step() const override { return inner_->first_full_step(); }
  HookState save_state(const BucketParameters& buckets) const override { return inner_->save_state(buckets); }
  void load_state(const HookState& state, const BucketParameters& buckets) override {
    inner_->load_state(state, buckets);
  }
  std::vector<at::Tensor> held_back(const BucketParameters& buckets) const override {
    return inner_->held_back(buckets);
  }

 private:
  std::unique_ptr<CommHook> inner_;
  at::ScalarType dtype_;
  BucketBuffers buffers_;
};

}  // namespace hookline
