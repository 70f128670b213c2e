// What a run has measured of itself, as one file at its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "parallel/engine.h"
#include "parallel/phases.h"

namespace hookline {

/// The time between optimizer steps. A step costs it a look at the clock.
class StepTimes {
 public:
  /// `so_far`: since the run's start.
  void step(const PhaseSeconds& so_far);

  std::int64_t steps() const { return steps_; }
  /// The median, in seconds; 0 before the second step.
  double median() const;
  /// The means, in seconds, from the second step on; the first is not like the others. 0 before the second.
  double mean() const;
  PhaseSeconds mean_phases() const;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMostKept = 100'000;  // of a longer run the first

  std::int64_t steps_ = 0;
  Clock::time_point first_{}, last_{};
  PhaseSeconds phases_at_first_, phases_;
  std::vector<float> seconds_;
};

/// Writes {"steps", "step_seconds", "phase_seconds", "bytes_per_step", "uncompressed_bytes_per_step", "pipeline",
/// "stage_bytes", "peak_memory_bytes"}: the
/// median time of a step; if `has_phases`, the means of its parts, {"forward", "backward", "exposed_communication",
/// "optimizer", "other"}; what this rank has handed to collectives for its models' gradients, and what plain gradients would
/// have taken, on average over its steps; what sent them, and the same bytes by what they were for, {"gradients", "q"} (of several
/// models together); the most memory that the process had (getrusage). Warns if the file can't be
/// written.
void write_run_summary(const std::filesystem::path& file, const StepTimes& times, bool has_phases,
                       const std::vector<WireReport>& reports);

}  // namespace hookline
