#include "prediction/collective_times.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace hookline {

CollectiveTimes::CollectiveTimes(std::vector<CollectiveTime> measured) : measured_(std::move(measured)) {
  const auto same_size = [](const CollectiveTime& a, const CollectiveTime& b) { return a.bytes == b.bytes; };
  measured_.erase(std::unique(measured_.begin(), measured_.end(), same_size), measured_.end());
  for (std::size_t i = measured_.size(); i-- > 0;) {
    CollectiveTime& each = measured_[i];
    if (i + 1 < measured_.size()) {
      each.seconds = std::min(each.seconds, measured_[i + 1].seconds);
      each.busy_seconds = std::min(each.busy_seconds, measured_[i + 1].busy_seconds);
    }
    each.busy_seconds = std::min(each.busy_seconds, each.seconds);
  }
}

CollectiveTime CollectiveTimes::of(double bytes) const {
  if (measured_.empty()) return {bytes, 0, 0};
  if (bytes <= measured_.front().bytes || measured_.size() == 1)
    return {bytes, measured_.front().seconds, measured_.front().busy_seconds};
  std::size_t right = 1;
  while (right + 1 < measured_.size() && measured_[right].bytes < bytes) ++right;
  const CollectiveTime &a = measured_[right - 1], &b = measured_[right];
  const double part = (bytes - a.bytes) / (b.bytes - a.bytes);
  return {bytes, a.seconds + part * (b.seconds - a.seconds),
          a.busy_seconds + part * (b.busy_seconds - a.busy_seconds)};
}

}  // namespace hookline
