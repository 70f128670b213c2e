// Numbers of measurements.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace hookline {

/// The lower quartile of `values`, which must not be empty. Delays only ever lengthen a time, so the lower
/// quartile varies less between measurements than the median.
inline double lower_quartile(std::vector<double> values) {
  const auto quarter = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), quarter, values.end());
  return *quarter;
}

/// What a step takes, of the times of several, which must not be empty: their lower quartile, as a rule. Where
/// the median is far above that, most steps are delayed, and what delays them belongs to the setting: packets
/// that a link drops, for example, which are sent again after 200 ms.
inline double step_seconds_of(const std::vector<double>& times) {
  constexpr double kFar = 1.25;
  std::vector<double> sorted = times;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return std::max(lower_quartile(times), *middle / kFar);
}

inline double seconds_of(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace hookline
