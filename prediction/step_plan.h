// What happens in a training step, in seconds: the input of a simulation.
#pragma once

#include <vector>

#include "prediction/collective_times.h"

namespace hookline {

/// A collective of a communication hook, and what the hook computes for it.
struct Send {
  int after = -1;  // the index of the bucket's send that must be over before; -1: none
  double busy_before =
      0;  // seconds of a core, from starting the send before it of the same `after` until this one starts
  double bytes = 0;  // that each rank hands in
  bool is_half =
      false;  // of 16-bit floating-point numbers, which are summed at another rate than 32-bit ones
  double busy_after = 0;  // seconds of a core after it is over and the sends that follow from it have started
};

/// What a hook does with one bucket. Sends are in the order in which they are started.
struct BucketCost {
  std::vector<Send> sends;
  double busy_after = 0;  // seconds of a core behind the sends that wait for none
};

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
