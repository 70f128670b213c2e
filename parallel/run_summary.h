// What a run has measured of itself, as one file at its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "parallel/ddp.h"

namespace hookline {

/// The time between optimizer steps. A step costs it a look at the clock.
class StepTimes {
 public:
  void step();

  std::int64_t steps() const { return steps_; }
  /// The median, in seconds; 0 before the second step.
  double median() const;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMostKept = 100'000;  // of a longer run the first

  std::int64_t steps_ = 0;
  Clock::time_point last_{};
  std::vector<float> seconds_;
};

/// Writes {"steps", "step_seconds", "bytes_per_step", "uncompressed_bytes_per_step", "peak_memory_bytes"}: the median time
/// of a step; what this rank has handed to collectives for its models' gradients, and what plain gradients would have
/// taken, on average over its steps; the most memory that the process had (getrusage). Warns if the file can't be written.
void write_run_summary(const std::filesystem::path& file, const StepTimes& times,
                       const std::vector<WireReport>& reports);

}  // namespace hookline
