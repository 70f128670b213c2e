// Times that a config names, as the supervisor's clock counts them.
#pragma once

#include <algorithm>
#include <chrono>

namespace hookline {

/// At most some thirty years: the clock can't count much longer, and a config may ask for more.
inline std::chrono::steady_clock::duration clock_duration(std::chrono::duration<double> time) {
  constexpr std::chrono::duration<double> kLongest{1e9};
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::min(time, kLongest));
}

}  // namespace hookline
