// Measures how far a hook's gradients are from the exact average.
#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "hooks/comm.h"

namespace hookline {

/// ‖g - e‖ / ‖e‖ for a hook's gradients g and their exact average e, in the 2-norm over elements sampled
/// evenly from all buckets. Measured at the hook's steps 1, 2, 4, 8, … (counted from 0) and for at most
/// kMostElements of a bucket, so that it does not slow the run down. Its bytes do not count as sent. Every
/// rank makes the same calls of run(). Thread-safe.
class CompressionError {
 public:
  /// What take() waits for instead of a collective's future.
  using Watch = std::function<FuturePtr(const FuturePtr& collective)>;

  /// Sends through `comm`, which no hook and no other CompressionError may use meanwhile. `watch`: with one,
  /// take() ends with an error if a rank is lost; without one, it waits for the group's timeout.
  explicit CompressionError(std::shared_ptr<Comm> comm, Watch watch = nullptr);

  static bool measures(std::int64_t step) { return step > 0 && (step & (step - 1)) == 0; }
  static constexpr std::int64_t kMostElements = 1 << 12;

  /// Samples `bucket`, starts the exact average of the samples, and calls `run_hook`, which runs the hook on
  /// `bucket`. Returns a future with the hook's result.
  FuturePtr run(const c10d::GradBucket& bucket, const std::function<FuturePtr()>& run_hook);

  /// Returns the error of the last measured step, once; none while such a step is under way, or if its hook
  /// failed. Waits for the exact averages and for a GPU. Throws the collectives' error, or the watch's; over
  /// NCCL, the launcher or NCCL's watchdog notices a dead rank instead.
  std::optional<double> take();

 private:
  // Of one bucket. `averaged` is a copy of the hook's result, since the recipient of the result may change
  // it.
  struct Sample {
    FuturePtr exact;
    at::Tensor averaged;
    std::atomic<bool> has_averaged{false};  // `averaged` may be read
    std::int64_t stride = 1;
  };

  std::shared_ptr<Comm> comm_;
  Watch watch_;  // may be empty
  std::mutex mutex_;
  bool is_whole_ = false;  // samples_ has all buckets of the step
  std::vector<std::shared_ptr<Sample>>
      samples_;  // of the step that is measured now, or was last; empty: taken
};

}  // namespace hookline
