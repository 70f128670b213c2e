// What a run logs of itself, as lines of JSON.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>

namespace hookline {

/// Appends to a file, by a thread of its own: whoever logs never waits for a disk, and a step never fails for one. What the
/// disk does not take is told once, and lost; so is what comes while 10,000 lines wait for it.
class MetricsLog {
 public:
  using Clock = std::chrono::steady_clock;

  /// Nothing is opened before the first line. `start`: of the run, from which its time is counted.
  explicit MetricsLog(std::filesystem::path file, Clock::time_point start = Clock::now());
  /// Waits until all is written, though no longer than `kPatience`.
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  /// {"step": 10, "seconds": 1.25, "bytes_sent": 5120, "loss": 0.31}: seconds since the run's start; what this rank has handed to
  /// collectives until then for its models. What is not a finite number becomes null. Throws Error for a name that is empty,
  /// or one of those that each line has.
  void add(std::int64_t step, std::int64_t bytes_sent, const std::map<std::string, double>& values);

  /// Of every log of this process: for one that is about to end.
  static void flush_all();

  static constexpr std::size_t kMostWaiting = 10'000;  // lines
  static constexpr std::chrono::seconds kPatience{5};

 private:
  struct Queue;
  struct All;
  std::shared_ptr<Queue> queue_;
  std::thread thread_;
  Clock::time_point start_;
};

}  // namespace hookline
