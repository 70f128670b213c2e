// How long an all-reduce takes on the ranks of a run.
#pragma once

#include <vector>

namespace hookline {

/// One all-reduce that has the link to itself.
struct CollectiveTime {
  double bytes = 0;    // that each rank hands in
  double seconds = 0;  // from its start to its end
  /// Of these, the time in which a core of the rank works on it: copies, sums, system calls.
  double busy_seconds = 0;
};

/// Times of all-reduces of any size, by measurements of some. A value; not synchronised.
class CollectiveTimes {
 public:
  /// For a single rank, where every all-reduce takes no time.
  CollectiveTimes() = default;
  /// `measured` is sorted by bytes. A measurement slower than that of a larger size was disturbed, and is
  /// replaced by the larger size's time.
  explicit CollectiveTimes(std::vector<CollectiveTime> measured);

  /// Between two measurements on a straight line; beyond the last, on that through the last two.
  CollectiveTime of(double bytes) const;

  /// Seconds that the smallest all-reduce takes: a latency, during which others can use the link.
  double latency() const { return measured_.empty() ? 0 : measured_.front().seconds; }

  const std::vector<CollectiveTime>& measured() const { return measured_; }

 private:
  std::vector<CollectiveTime> measured_;
};

}  // namespace hookline
