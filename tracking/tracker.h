// Where a run's metrics go: the interface behind which TensorBoard, MLflow and others stand.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "base/error.h"

namespace hookline {

/// The run that is tracked.
struct TrackedRun {
  std::filesystem::path folder;               // of the run, with its logs; a restarted run has the same
  std::map<std::string, std::string> config;  // "ddp.comm_hook" → "fp16": what is not as by default
  std::chrono::system_clock::time_point start = std::chrono::system_clock::now();
};

/// What was logged at once. Time and bytes of a run that was restarted count on.
struct LoggedMetrics {
  std::int64_t step = 0;                       // optimizer steps that were done
  std::chrono::system_clock::time_point time;  // when
  double seconds = 0;                          // since the run's start
  std::int64_t bytes_sent = 0;                 // that this rank had handed to collectives for its models
  std::map<std::string, double> values;        // a name's need not be finite
};

/// How a run ended, as far as it could be seen from inside of it.
enum class RunEnd {
  finished,
  failed,  // by an error that nobody caught
  later    // its state is saved, and another launch goes on from there
};

/// What a tracker throws while it can't be reached but might be: the lines that it has not taken are given to it once more.
class TryAgain : public Error {
 public:
  /// `taken`: how many of the lines it has all the same.
  explicit TryAgain(const std::string& message, std::size_t taken = 0) : Error(message), taken_(taken) {}
  std::size_t taken() const { return taken_; }

 private:
  std::size_t taken_;
};

/// Takes what a run logs, by a thread of its own: no step waits for it, and none fails for it. `begin`, `write` and `end` come
/// in this order from that thread, one at a time. What they throw is told once, by what(), and the lines are lost unless it is
/// TryAgain. The last has five seconds until the process may end.
class Tracker {
 public:
  Tracker() = default;
  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;
  virtual ~Tracker() = default;

  /// Where it puts things, for messages: "'runs/1/metrics.jsonl'".
  virtual std::string place() const = 0;

  /// With the first line that there is; again if it throws.
  virtual void begin(const TrackedRun& /*run*/) {}
  /// Some lines, at least one, in their order.
  virtual void write(std::span<const LoggedMetrics> lines) = 0;
  /// Not if the process is killed.
  virtual void end(RunEnd /*how*/) {}
};

}  // namespace hookline
