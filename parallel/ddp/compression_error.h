// How far from the exact average a hook's gradients are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "hooks/comm.h"
#include "parallel/world/process_group.h"

namespace hookline {

/// ‖g - e‖ / ‖e‖ of what a hook makes of the gradients, g, and their exact average, e, in the 2-norm over elements that are
/// spread evenly over all buckets. Measured in the steps 1, 2, 4, 8, … of the hook's, counted from 0: so rarely, and for so few
/// elements (at most kMostElements of a bucket), that a run is no slower for it. Other than the hook's bytes, its own are not
/// counted as sent. Every rank makes the same calls.
class CompressionError {
 public:
  /// Sends by `comm`, which no hook uses, and one of these objects at a time.
  CompressionError(std::shared_ptr<World> world, std::shared_ptr<Comm> comm);

  static bool measures(std::int64_t step) { return step > 0 && (step & (step - 1)) == 0; }
  static constexpr std::int64_t kMostElements = 1 << 12;

  /// Of one bucket. `averaged` is the hook's, as it was when the hook was done: whoever gets it may change it.
  struct Sample {
    FuturePtr exact;
    at::Tensor averaged;
    std::int64_t stride = 1;
  };
  /// Of a bucket as it is before the hook runs; `is_first` of the step's.
  std::shared_ptr<Sample> sample(const at::Tensor& bucket, bool is_first);
  /// A future of what `result`, the hook's, holds, complete once `sample` has its part of it.
  static FuturePtr taken(const FuturePtr& result, std::shared_ptr<Sample> sample);

  /// That of the last step that was measured, once; to be called between steps. Waits for the exact averages, and for a GPU.
  /// Throws RunFailed; over NCCL a rank that has died is noticed by others, as always.
  std::optional<double> take();

 private:
  std::shared_ptr<World> world_;
  std::shared_ptr<Comm> comm_;
  std::vector<std::shared_ptr<Sample>>
      samples_;  // of the step that is measured now, or was last; empty: taken
};

}  // namespace hookline
