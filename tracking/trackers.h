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

/// How far a run was when it was started again: what is logged from then on counts from there.
struct LoggedSoFar {
  double seconds = 0;
  std::int64_t bytes_sent = 0;
};

/// Hands what is logged to trackers: whoever logs never waits for one. What a tracker can't take is told once; what comes while
/// 10,000 lines wait for it is lost, and counted.
class Trackers {
 public:
  using Clock = std::chrono::steady_clock;

  /// `start`: of this process's part of the run, from which its time is counted.
  /// `patience`: how long the end waits for trackers.
  /// `before`: what the parts before it came to.
  explicit Trackers(TrackedRun run, Clock::time_point start = Clock::now(),
                    std::chrono::seconds patience = kPatience, LoggedSoFar before = {});
  /// Waits until all is written, though for no longer than that.
  ~Trackers();
  Trackers(const Trackers&) = delete;
  Trackers& operator=(const Trackers&) = delete;

  /// Gets what is logged from now on.
  void add(std::unique_ptr<Tracker> tracker);

  /// `bytes_sent`: since `start`. Throws Error for a name that is empty, or one of those that each line has by itself: "step",
  /// "seconds", "bytes_sent".
  void log(std::int64_t step, std::int64_t bytes_sent, std::map<std::string, double> values);

  /// Ends every tracker of this process, for a process that is about to end without any destructor. What is logged
  /// afterwards is lost.
  static void end_all(RunEnd how);

  static constexpr std::size_t kMostWaiting = 10'000;  // lines
  static constexpr std::chrono::seconds kPatience{5};
  static constexpr std::chrono::seconds kAgainAfter{5};  // what could not be reached

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
