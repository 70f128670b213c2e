// The interface of trackers, which take a run's metrics: TensorBoard, MLflow and others.
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
  /// The run folder, the same in each attempt of a restarted run; empty if HOOKLINE_RUN_DIR, which the
  /// launcher sets, names none.
  std::filesystem::path folder;
  /// The settings that differ from their defaults: "ddp.comm_hook" → "fp16". Empty without a run folder.
  std::map<std::string, std::string> config;
  /// When this attempt of the run started.
  std::chrono::system_clock::time_point start = std::chrono::system_clock::now();
};

/// One line of metrics, of Accelerator::log() or of the run itself. In a restarted run, time and bytes
/// continue from the attempt before.
struct LoggedMetrics {
  std::int64_t step = 0;                       ///< Optimizer steps taken so far.
  std::chrono::system_clock::time_point time;  ///< When it was logged.
  double seconds = 0;                          ///< Seconds since the start of the run.
  std::int64_t bytes_sent = 0;           ///< Bytes that rank 0 has handed to collectives for its models.
  std::map<std::string, double> values;  ///< The values by name; may be NaN or infinite.
};

/// How a run ended, as far as the program knows.
enum class RunEnd {
  finished,  ///< Normally, with exit code 0.
  failed,    ///< By an uncaught exception, or with another exit code.
  later      ///< By preemption: its state is saved, and another launch resumes it.
};

/// Thrown by a tracker that cannot be reached at the moment: it is called again later, with the lines not yet
/// taken.
class TryAgain : public Error {
 public:
  /// `taken`: how many of the lines, from the first on, the tracker has taken.
  explicit TryAgain(const std::string& message, std::size_t taken = 0) : Error(message), taken_(taken) {}
  /// How many of the lines the tracker has taken.
  std::size_t taken() const { return taken_; }

 private:
  std::size_t taken_;
};

/// The base of a tracker, which takes what rank 0 logs, on a thread of its own: no step waits for it, and
/// none fails because of it. begin(), write() and end() are called in this order, one at a time, and may
/// block.
///
/// The first exception that they throw is logged. After TryAgain, begin() and write() are called again until
/// the run ends; after any other one the lines are lost. end() is called once, and has five seconds until the
/// process may exit.
class Tracker {
 public:
  Tracker() = default;
  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;
  virtual ~Tracker() = default;

  /// The tracker's destination, for messages: "'runs/1/metrics.jsonl'". Called once, when the tracker is
  /// added.
  virtual std::string place() const = 0;

  /// Called before the first write(); again if it throws.
  virtual void begin(const TrackedRun& /*run*/) {}
  /// Takes one or more lines, in order.
  virtual void write(std::span<const LoggedMetrics> lines) = 0;
  /// Called at the end of the run if begin() has succeeded; not if the process is killed.
  virtual void end(RunEnd /*how*/) {}
};

}  // namespace hookline
