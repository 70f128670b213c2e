// Predicts the time of a training step by playing it through.
#pragma once

#include "prediction/step_plan.h"

namespace hookline {

struct Predicted {
  double seconds = 0;          // of the step
  double exposed_seconds = 0;  // of these, in which the backward's thread waits for buckets
};

/// Simulates a step on one of several identical ranks. Backward makes buckets ready in order. What a hook
/// computes before its collectives runs on backward's thread and delays it; what it computes after a
/// collective, and the collectives' own copies and sums, share the rank's cores with backward. Collectives
/// use the link one at a time, in the order in which they start; the latency of one overlaps with the next.
/// The simulation itself takes microseconds per bucket.
/// Throws Error for a send that waits for itself or for a later send, and for a time that is negative or not
/// finite.
Predicted simulate(const StepPlan& plan, const Machine& machine);

}  // namespace hookline
