// One trial as a process: what it runs with, while it runs, and what became of it.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "checkpoint/folder_lock.h"
#include "launcher/process/signals.h"
#include "launcher/sweep/state.h"
#include "launcher/sweep/trial_result.h"

namespace hookline {

/// What a trial runs with, wherever it does.
struct TrialSpec {
  PlannedTrial planned;
  Yardstick by;
  std::optional<double> limit_seconds;
};

/// What a trial gets on the machine that it runs on.
struct TrialPlace {
  std::filesystem::path hookline;           // the launcher
  std::vector<int> cores;                   // empty: those of this process
  std::optional<std::string> visible_gpus;  // CUDA_VISIBLE_DEVICES; none: as it is here
};

/// The folder of a trial, which one process has at a time.
class TrialFolder {
 public:
  /// Makes it. Throws Error, naming it, if that fails, or if another process has it.
  explicit TrialFolder(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  /// Removes what an interrupted trial left, except its plan if `keeps_plan`. Throws Error.
  void clear(bool keeps_plan) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<FolderLock> lock_;
};

/// Where the launch of a trial in `folder` has its files.
std::filesystem::path run_of(const std::filesystem::path& folder);
std::filesystem::path metrics_of(const std::filesystem::path& folder);

/// Would this variable, "NAME=value", override a trial's config? Trials do not get it.
bool overrides_config(const std::string& variable);

/// How long to wait for trials to be suspended.
inline constexpr std::chrono::seconds kSuspendPatience{2};

/// A trial that runs, as a launch of its own; the destructor kills it.
class TrialRun {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts it in a folder that is clear. `signals` is used in the call only. Throws Error.
  TrialRun(TrialFolder folder, TrialSpec spec, const TrialPlace& place, const Signals& signals);
  ~TrialRun();
  TrialRun(const TrialRun&) = delete;
  TrialRun& operator=(const TrialRun&) = delete;

  /// Readable once it has ended.
  int end_descriptor() const { return end_.get(); }
  Clock::time_point start() const { return start_; }
  const MetricsFile& metrics() const { return metrics_; }

  /// Call it regularly: reads new metrics, enforces the time limit, and returns whether the trial has ended.
  bool look();

  /// Stops the trial because it has failed or is hopeless; `as`, `reason` and `judged_by` become its result.
  void tell_to_end(TrialStatus as, const std::string& reason, const std::string& judged_by);
  bool is_told_to_end() const { return ended_as_.has_value(); }

  /// Stops the trial for an external reason: it then has no result unless it still exits with 0, or had been
  /// told to end already.
  void interrupt(int signal);
  /// Kills the trial immediately.
  void kill_now();

  /// Suspends all its processes until resume(); suspended time does not count towards its time limit.
  void suspend();
  /// Waits until the trial is suspended, or until the time `patience`. Call it before resume().
  void wait_until_suspended(Clock::time_point patience) const;
  void resume(Clock::duration suspended);

  /// For a trial that has ended: did a signal end it, or did it exit with 128 + n, as after a signal, without
  /// having been told to end?
  bool was_signalled() const;
  /// The result of a trial that has ended; nothing if it was interrupted before it was done.
  std::optional<TrialResult> result_if_done();
  /// Of one that has ended, whatever ended it.
  TrialResult result();
  /// What could not be read for its result.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void end_within_grace(int signal);

  TrialFolder folder_;
  TrialSpec spec_;
  MetricsFile metrics_;
  pid_t pid_ = 0;
  FileDescriptor end_;
  Clock::time_point start_;
  std::optional<TrialStatus> ended_as_;
  std::string reason_, judged_by_;
  std::optional<Clock::time_point> killed_at_;
  std::optional<int> wait_status_;
  std::vector<std::string> warnings_;
};

}  // namespace hookline
