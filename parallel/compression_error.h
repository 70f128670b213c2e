// How far from the exact average a hook's gradients are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "hooks/comm.h"
#include "parallel/process_group.h"

namespace hookline {

/// ‖g - e‖ / ‖e‖ of what a hook makes of the gradients, g, and their exact average, e, in the 2-norm over elements that are
/// spread evenly over all buckets. Measured in the steps 1, 2, 4, 8, … of the hook's, counted from 0: so rarely, and for so few
/// elements (at most kMostElements of a bucket), that a run is no slower for it. On the CPU. Other than the hook's bytes, its own
/// are not counted as sent. Every rank makes the same calls.
class CompressionError {
 public:
  /// Its process group is made, by all ranks, in the first step that is measured.
  explicit CompressionError(std::shared_ptr<World> world) : world_(std::move(world)) {}

  static bool measures(std::int64_t step) { return step > 0 && (step & (step - 1)) == 0; }
  static constexpr std::int64_t kMostElements = 1 << 18;

  /// Of one bucket, as it was before the hook ran.
  class Sample {
   public:
    /// A future of what `result`, the hook's, holds, complete once it is compared.
    FuturePtr compared(const FuturePtr& result) const;

   private:
    friend class CompressionError;
    struct Sums;
    at::Tensor of(const at::Tensor& whole) const { return whole.slice(0, 0, whole.numel(), stride_); }
    std::shared_ptr<Sums> sums_;
    FuturePtr exact_;
    std::int64_t stride_ = 1;
  };
  /// To be called before the hook runs; `is_first` of the step's buckets.
  Sample sample(const at::Tensor& bucket, bool is_first);

  /// That of the last step that was measured, once; to be called between steps.
  std::optional<double> take();

 private:
  std::shared_ptr<World> world_;
  std::unique_ptr<Comm> comm_;
  std::shared_ptr<Sample::Sums> sums_;  // of the step that is measured now, or was last; null: taken
};

}  // namespace hookline
