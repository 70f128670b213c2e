// Observes steps whose communication is deferred until after backward, so that their computation can be timed
// alone.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "parallel/choice/deferred_average.h"
#include "parallel/world/world.h"
#include "prediction/step_plan.h"

namespace hookline {

/// What a rank has observed of such steps. Not synchronised.
class ObservedSteps {
 public:
  using Clock = BucketMoments::Clock;

  /// The hook to observe them with.
  std::unique_ptr<CommHook> make_hook(const HookContext& context) const {
    return std::make_unique<DeferredAverage>(context, moments_);
  }

  /// A step that began at `start`, its backward at `backward`, and is over.
  void add(Clock::time_point start, Clock::time_point backward, Clock::time_point now);

  /// The lower quartiles of the slowest rank's steps, except the first step, which the exchange of hooks
  /// slows down. A collective call.
  StepPlan agreed_plan(World& world) const;

 private:
  struct Step {
    double before = 0, after = 0;  // seconds before and after backward
    std::vector<double> ready;     // of each bucket, since backward began
  };
  std::shared_ptr<BucketMoments> moments_ = std::make_shared<BucketMoments>();
  std::vector<Step> steps_;
};

}  // namespace hookline
