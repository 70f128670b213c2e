// What a Python rank tells its launcher and the run's trackers.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tracking/trackers.h"

namespace hookline {

/// Steps and metrics of this process. Without a launcher it counts steps and drops the rest. Not
/// synchronised.
class RankReports {
 public:
  /// Reads where to report from the environment that `hookline launch` sets, and has fatal signals written to
  /// the rank's error file. Throws ConfigError if the run's config can't be read.
  RankReports();

  /// An optimizer step is over: the next one, or number `step`. `bytes_sent`: by this rank so far.
  void step(std::optional<std::int64_t> step, std::optional<double> loss, std::int64_t bytes_sent);
  /// Logs `values` of the last step, if this is rank 0. Throws Error for a name that each line has anyway.
  void log(const std::map<std::string, double>& values, std::int64_t bytes_sent);
  /// Waits until the trackers have written everything, but not for long.
  void end(RunEnd how);

 private:
  const Trackers::Clock::time_point start_ = Trackers::Clock::now();
  int rank_;
  std::int64_t steps_ = 0;
  std::unique_ptr<Trackers> trackers_;
};

}  // namespace hookline
