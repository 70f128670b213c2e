// What a communication hook computes and sends in a step.
#pragma once

#include <vector>

namespace hookline {

/// One collective of a communication hook, and what the hook computes for it, in seconds of one core.
struct Send {
  /// The index, in the same bucket, of the send that must end before this one starts; smaller than its own.
  /// -1: none.
  int after = -1;
  /// Seconds of computing before it starts, counted from the start of the previous send with the same
  /// `after`.
  double busy_before = 0;
  /// Bytes that each rank hands in; 0: nothing is sent, and what follows may begin at once.
  double bytes = 0;
  /// True for 16-bit floating-point numbers, which are summed at another rate than 32-bit ones.
  bool is_half = false;
  /// Seconds of computing after it has ended and the sends that follow it have started.
  double busy_after = 0;
};

/// What a hook does with one bucket.
struct BucketCost {
  std::vector<Send> sends;  ///< In the order in which they start.
  double busy_after = 0;    ///< Seconds of one core in run(), after the sends that wait for no other.
};

/// What a hook does in one step.
struct HookCost {
  /// How the seconds are known.
  enum class Known {
    measured,  ///< By timing the hook.
    derived    ///< By computation, such as an estimate of the hook itself.
  };

  std::vector<BucketCost> buckets;  ///< One for each bucket, in the order in which they are communicated.
  double margin = 0;                ///< Relative error of the seconds: 0.1 means up to a tenth more.
  Known how = Known::measured;      ///< How the seconds are known.
};

}  // namespace hookline
