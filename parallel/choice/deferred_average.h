// Averages gradients when backward is over, and notes when each bucket was ready.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hooks/comm_hook.h"
#include "hooks/ddp/no_hook_name.h"

namespace hookline {

/// When each event of a step happened.
struct BucketMoments {
  using Clock = std::chrono::steady_clock;

  std::mutex mutex;                      // guards the rest
  std::vector<Clock::time_point> ready;  // of each bucket, in the order of communication
  Clock::time_point averaged{};          // of all
};

/// Averages as the Reducer does without a hook, but sends no bucket until the last one is ready, so that
/// backward can be timed without communication.
/// Bucket  1-D floating, numel n           Wire    n elements a rank into the collective
/// Result  the bucket's buffer, in place   State   none
/// Errors  none at step time               Parity  DistributedDataParallel without a hook, bit for bit
/// Source  none
class DeferredAverage : public CommHook {
 public:
  DeferredAverage(HookContext context, std::shared_ptr<BucketMoments> moments)
      : CommHook(std::move(context)), moments_(std::move(moments)) {}

  FuturePtr run(GradBucket bucket) override;
  std::string describe() const override { return kNoHook; }

 private:
  struct Waiting {
    at::Tensor buffer;
    FuturePtr result;
  };
  std::shared_ptr<BucketMoments> moments_;
  std::vector<Waiting> waiting_;  // of the step so far
};

}  // namespace hookline
