// Runs the ranks of one node: starts them, passes their output on, and stops them together.
#pragma once

#include <poll.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "launcher/containment/run_bounds.h"
#include "launcher/output/output_queue.h"
#include "launcher/output/progress.h"
#include "launcher/output/rank_stream.h"
#include "launcher/output/status_line.h"
#include "launcher/process/signals.h"
#include "launcher/rank/binding.h"
#include "launcher/supervise/decide.h"
#include "launcher/supervise/failure_report.h"
#include "launcher/supervise/stacks.h"

namespace hookline {

struct RankSpec {
  std::vector<std::string> environment;                    // "NAME=value", complete
  std::optional<std::string> output_prefix, error_prefix;  // of each line that is shown; none: nothing is
  Cores cores;                                             // that it is bound to; empty: to none
  std::filesystem::path log_folder;  // exists; gets stdout.log and stderr.log, and may get error.json
};

/// Somebody beside the ranks and the user who may want the ranks to end: the other nodes.
struct Attention {
  std::function<int()> descriptor;  // none, or -1 once there is nothing more to come
  std::function<bool()> read;       // called when it is readable; true, once, if the ranks are to be stopped
  /// Called at the first failure of a rank, a number of the whole run; `step`: that it told last.
  std::function<void(int rank, const Outcome& outcome, std::optional<std::int64_t> step)> failed;
};

struct JobSpec {
  std::string program;                 // path of an executable
  std::vector<std::string> arguments;  // argv[0] included
  std::vector<RankSpec> ranks;
  int first_rank = 0;  // of the whole run: of ranks[0]
  Attention attention;
  const RunBounds* bounds = nullptr;  // of the run; lives as long as it
  FileDescriptor store;               // inherited by rank 0 alone; may hold none
  FileDescriptor status,
      status_of_ranks;  // a pair of datagram sockets, ours and that of all ranks; may hold none
  std::chrono::duration<double> grace_period{10};
  std::chrono::duration<double> early_exit{0};  // of a rank, after which the others are looked at; 0: never
  std::chrono::duration<double> stall_timeout{0};  // without a finished step; 0: never
  bool stall_stacks = false;                       // write down where stuck ranks are
  std::optional<int> explained_exit;  // a rank's code that needs no report: it has said what is wrong
  bool holds_warnings = false;        // ranks ignore SIGUSR1 until they have told something, and get it then
  StatusLine::Form status_form = StatusLine::Form::none;
  std::chrono::duration<double> status_interval{60};
};

struct RunResult {
  RunState state;
  std::optional<Failure> failure;    // of the state's root cause, if there is one; ranks are the whole run's
  std::optional<std::int64_t> step;  // that the root cause was at, if it told
  bool is_explained = false;         // the rank has said itself what is wrong, and no report is wanted
};

/// One run. Not for several threads: the ranks die with the thread that calls run(). One at a time in a
/// process, because signals and the reaping of children belong to the process.
class Supervisor {
 public:
  /// `signals` are the launcher's; they must outlive it.
  Supervisor(JobSpec job, Signals& signals);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Returns when every rank, and all that the ranks started, is gone. Throws SpawnError or
  /// std::system_error, with no rank left, if a rank can't be started.
  RunResult run();

 private:
  using Clock = std::chrono::steady_clock;

  struct Rank {
    pid_t pid = 0;       // and of its process group
    FileDescriptor end;  // readable once the process has ended
    bool alive = false;
    bool group_left = false;  // false once the group is empty: the system may then give its number to others
    std::unique_ptr<RankStream> output, error;
  };

  void start();
  void wait();
  std::vector<pollfd> own_descriptors() const;
  void poll_once();
  int poll_timeout_ms() const;
  void take_signals();
  void take_reports();
  void look_at_the_clock();
  void look_for_early_exits(Clock::time_point now);
  void look_for_stalls(Clock::time_point now);
  void write_stacks(Clock::time_point now);
  void release_stop();
  Clock::time_point next_look() const;
  void suspend();
  void reap();
  void ended(int rank, int wait_status);
  void note_finished(int rank);
  void note_stopped_ranks();
  void stop_all(int signal);
  Failure failure() const;
  void happened(const Event& event);
  void signal_groups(int signal) const;
  void signal_all(int signal) const;
  bool processes_are_left() const;
  void update_groups();
  void drain();
  void flush();
  void tell_of_closed_output();

  JobSpec job_;
  Signals& signals_;
  rlimit former_file_limit_;  // the ranks' own: ours must hold five files a rank
  OutputQueue output_{1}, error_{2};
  std::vector<Rank> ranks_;
  FileDescriptor ends_;  // tells which ranks have ended, in the order in which they did
  std::optional<std::int64_t> memory_kills_before_;
  Progress progress_;
  StackWriters stacks_;
  StatusLine status_line_;
  Clock::time_point started_ = Clock::now();
  std::optional<Clock::time_point>
      first_success_;  // when a rank ended with 0 and others went on; reset once told
  int first_to_succeed_ = -1;
  std::vector<int> stopped_ranks_;            // when the first rank failed
  std::vector<int> waiting_ranks_;            // in a collective, when no rank finished a step
  std::vector<int> ranks_like_it_;            // the one that was named then
  std::vector<FinishedRank> finished_ranks_;  // with code 0, before any failed
  bool was_waiting_ = false;                  // the rank that failed first, in a collective
  bool stop_is_held_ = false;                 // until it is written down where stuck ranks are
  RunState state_;
  Clock::time_point deadline_ =
      Clock::time_point::max();  // of the grace period, or of giving up after SIGKILL
  bool log_failed_ = false;
  bool told_of_closed_output_ = false;
};

}  // namespace hookline
