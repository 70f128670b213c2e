// Detects early exits and stalls by the time that passes. Pure: the caller passes the time.
#pragma once

#include <chrono>
#include <optional>

namespace hookline {

/// Watches for a rank that exited with code 0 long before the others, and for a run in which no rank finishes
/// a step any more.
class RunWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// `early_exit` and `stall_timeout` as in JobSpec; 0: not watched for.
  RunWatch(std::chrono::duration<double> early_exit, std::chrono::duration<double> stall_timeout)
      : early_exit_(early_exit), stall_timeout_(stall_timeout) {}

  /// A rank exited with code 0 at `now`, and others still run. Only the first such rank counts.
  void exited_early(int rank, Clock::time_point now);

  /// The rank that exited early, once `early_exit` has passed since; returned a single time.
  std::optional<int> take_early_exit(Clock::time_point now);

  /// Has no rank finished a step for `stall_timeout`? `last_step` is when one last did, none before the first
  /// report.
  bool is_stalled(std::optional<Clock::time_point> last_step, Clock::time_point now) const;

  /// When to ask again; max() if there is nothing to watch for.
  Clock::time_point next_look(std::optional<Clock::time_point> last_step) const;

 private:
  /// When the run counts as stalled unless a step is finished before; none if it never does.
  std::optional<Clock::time_point> stalled_at(std::optional<Clock::time_point> last_step) const;

  std::chrono::duration<double> early_exit_, stall_timeout_;
  std::optional<int> first_to_succeed_;
  std::optional<Clock::time_point> warning_due_;  // reset once it is taken
};

}  // namespace hookline
