// What a communication hook computes and sends in a step.
#pragma once

#include <vector>

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

/// Of one step.
struct HookCost {
  enum class Known { measured, derived };

  std::vector<BucketCost> buckets;  // in the order in which they are communicated
  double margin = 0;                // part by which the seconds may be off
  Known how = Known::measured;
};

}  // namespace hookline
