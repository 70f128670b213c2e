// Runs the ranks of one node: starts them, passes their output on, and stops them together.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "launcher/output/progress.h"
#include "launcher/output/status_line.h"
#include "launcher/process/file_limit.h"
#include "launcher/process/signals.h"
#include "launcher/supervise/failure_notes.h"
#include "launcher/supervise/failure_report.h"
#include "launcher/supervise/job.h"
#include "launcher/supervise/next_action.h"
#include "launcher/supervise/rank_output.h"
#include "launcher/supervise/rank_processes.h"
#include "launcher/supervise/rank_stop.h"
#include "launcher/supervise/run_watch.h"
#include "launcher/supervise/stacks.h"

namespace hookline {

struct RunResult {
  RunState state;
  std::optional<Failure> failure;    // of the state's root cause, if there is one; ranks are the whole run's
  std::optional<std::int64_t> step;  // that the root cause was at, if it reported one
  std::optional<std::int64_t> furthest;  // the last step that any rank reported
  std::optional<int> asked_by;  // the first signal that asked the launcher to end, if no rank had failed
  bool is_explained = false;    // the rank has said itself what is wrong, and no report is wanted
};

/// One run. Not for several threads: the ranks die with the thread that calls run(). One at a time in a
/// process, because signals and the reaping of children belong to the process.
class Supervisor {
 public:
  /// `signals` are the launcher's; they must outlive it.
  Supervisor(JobSpec job, Signals& signals);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Returns when every rank, and all that the ranks started, is gone. Throws SpawnError or
  /// std::system_error, with no rank left, if a rank can't be started.
  RunResult run();

 private:
  using Clock = std::chrono::steady_clock;

  void start();
  void wait();
  std::vector<pollfd> own_descriptors() const;
  void poll_once();
  int poll_timeout_ms() const;
  Clock::time_point next_look() const;
  void take_signals();
  void take_reports();
  void look_at_the_clock();
  void look_for_early_exits(Clock::time_point now);
  void look_for_stalls(Clock::time_point now);
  void report_busiest(Clock::time_point now);
  void write_stacks(Clock::time_point now);
  void release_stop(Clock::time_point now);
  void suspend();
  void reap();
  void ended(int rank, int wait_status);
  void note_success(int rank);
  void happened(const Event& event);
  Failure failure() const;
  void flush();

  JobSpec job_;
  Signals& signals_;
  RaisedFileLimit file_limit_;  // before anything that opens files
  RankOutput output_;
  RankProcesses ranks_;
  RankStop stop_;
  RunWatch watch_;
  Progress progress_;
  StackWriters stacks_;
  StatusLine status_line_;
  FailureNotes notes_;
  std::optional<std::int64_t> memory_kills_before_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point busiest_at_ = Clock::time_point::max();  // when to report which rank is the busiest
  RunState state_;
  std::optional<int> asked_by_;  // see RunResult
};

}  // namespace hookline
