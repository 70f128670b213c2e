// Predicts the time of a training step by playing it through.
#pragma once

#include "prediction/step_plan.h"

namespace hookline {

struct Predicted {
  double seconds = 0;          // of the step
  double exposed_seconds = 0;  // of these, in which the backward's thread waits for buckets
};

/// Plays a step on one of several ranks that all do the same. Buckets become ready as backward goes on, in order. What a hook computes
/// without waiting for a collective holds up backward, since it runs on its thread; what it computes when one is over shares the rank's
/// cores with backward, and so do the collectives' own copies and sums. Collectives use the link one after another, in the order in which they were
/// started; the latency of one can pass while the next uses the link. Takes microseconds for a bucket.
/// Throws Error for a send that follows a later one, and for a time that is negative or not finite.
Predicted simulate(const StepPlan& plan, const Machine& machine);

}  // namespace hookline
