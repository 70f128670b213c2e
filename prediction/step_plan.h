// What happens in a training step, in seconds: the input of a simulation.
#pragma once

#include <vector>

#include "hooks/catalog/hook_cost.h"
#include "prediction/collective_times.h"

namespace hookline {

struct BucketPlan {
  double ready = 0;  // seconds of the backward's own arithmetic, until its last gradient is there
  BucketCost cost;
};

/// A step of one rank, as it would be if no communication slowed it down.
struct StepPlan {
  double before_backward = 0;       // from the end of the last step: data, forward
  double backward = 0;              // its own arithmetic
  double after_backward = 0;        // behind the last bucket: copies into gradients, the optimizer's step
  std::vector<BucketPlan> buckets;  // in the order in which they are communicated
};

/// What the ranks communicate with.
struct Machine {
  double cores = 1;            // of a host, for each of its ranks
  CollectiveTimes full, half;  // of all-reduces of 32-bit numbers, of 16-bit ones
};

}  // namespace hookline
