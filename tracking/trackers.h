// All trackers of a process, each with a thread of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tracking/tracker.h"

namespace hookline {

/// The totals of a run when it was restarted: what is logged afterwards is added to them.
struct LoggedSoFar {
  double seconds = 0;
  std::int64_t bytes_sent = 0;
};

/// Passes metrics to trackers, without making the caller wait for them. A tracker's problem is logged once.
/// While 10,000 lines wait for a tracker, further lines are lost, and counted.
class Trackers {
 public:
  using Clock = std::chrono::steady_clock;

  /// `start`: when this process's part of the run began; its time is counted from there.
  /// `patience`: how long to wait for trackers at the end.
  /// `before`: the totals of earlier parts of the run.
  explicit Trackers(TrackedRun run, Clock::time_point start = Clock::now(),
                    std::chrono::seconds patience = kPatience, LoggedSoFar before = {});
  /// Waits until everything is written, but at most for `patience`.
  ~Trackers();
  Trackers(const Trackers&) = delete;
  Trackers& operator=(const Trackers&) = delete;

  /// Adds a tracker for what is logged from now on.
  void add(std::unique_ptr<Tracker> tracker);

  /// Throws Error for a name that is empty, or that each line has anyway: "step", "seconds", "bytes_sent".
  static void expect_names(const std::map<std::string, double>& values);

  /// Logs `values`. `bytes_sent` counts from `start`. Throws as expect_names() does.
  void log(std::int64_t step, std::int64_t bytes_sent, std::map<std::string, double> values);

  /// Ends every tracker of this process, to be called before the process exits without destructors. What is
  /// logged afterwards is lost.
  static void end_all(RunEnd how);

  static constexpr std::size_t kMostWaiting = 10'000;  // lines
  static constexpr std::chrono::seconds kPatience{5};
  static constexpr std::chrono::seconds kAgainAfter{5};  // to retry a tracker that could not be reached

 private:
  struct Queue;
  struct All;
  void end(RunEnd how);

  const std::shared_ptr<const TrackedRun> run_;
  const Clock::time_point start_;
  const std::chrono::seconds patience_;
  const LoggedSoFar before_;
  std::vector<std::pair<std::shared_ptr<Queue>, std::thread>> queues_;
};

}  // namespace hookline
