// Which step a model's gradients are in, and the watch over the reduction of each bucket.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "hooks/future.h"
#include "parallel/rank/step_clock.h"
#include "parallel/world/world.h"

namespace hookline {

/// The backward passes of one model that communicate, counted from 0, whatever reduces their buckets. A step
/// is over once all of the model's gradients have been handed over. Not synchronised.
class GradientSteps {
 public:
  /// `elements`: of the gradients of one step, all buckets together.
  GradientSteps(std::shared_ptr<World> world, std::int64_t elements);

  /// Calls `reduce`, which starts the reduction of a bucket of `elements`. The future that it returns is
  /// completed by the World's FailureWatch. An error, also one that `reduce` throws, names step, `name` and
  /// rank, and is the same on every rank: "step 12 of power_sgd(rank=2, start=10) failed on rank 1: …", and
  /// with the name kNoHook "step 12 without a hook failed on rank 1: …".
  FuturePtr reduce(std::int64_t elements, const std::string& name, const std::function<FuturePtr()>& reduce);

  /// How many steps are over: also the number, from 0, of the step in progress.
  std::int64_t count() const { return elements_reduced_ / elements_; }
  void start_at(std::int64_t step) { elements_reduced_ = step * elements_; }
  /// When the last bucket was handed over. That is after what a hook computes before it starts a
  /// collective.
  const StepClock::Moment& last_bucket_at() const { return last_bucket_at_; }

 private:
  std::shared_ptr<World> world_;
  std::int64_t elements_, elements_reduced_ = 0;
  StepClock::Moment last_bucket_at_;
};

}  // namespace hookline
