// Runs the ranks of one node: starts them, passes their output on, and stops them together.
#pragma once

#include <poll.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/supervise/decide.h"
#include "launcher/supervise/file_descriptor.h"
#include "launcher/supervise/output_queue.h"
#include "launcher/supervise/rank_stream.h"
#include "launcher/supervise/report.h"
#include "launcher/supervise/signals.h"

namespace hookline {

struct RankSpec {
  std::vector<std::string> environment;  // "NAME=value", complete
  std::filesystem::path log_folder;      // exists; gets stdout.log and stderr.log, and may get error.json
};

struct JobSpec {
  std::string program;                 // path of an executable
  std::vector<std::string> arguments;  // argv[0] included
  std::vector<RankSpec> ranks;
  FileDescriptor store;  // inherited by rank 0 alone; may hold none
  bool prefix = true;    // "[rank] " before each line
  std::chrono::duration<double> grace_period{10};
};

struct RunResult {
  RunState state;
  std::optional<Failure> failure;  // of the state's root cause, if there is one
};

/// One run. Not for several threads: the ranks die with the thread that calls run(). One at a time in a
/// process, because signals and the reaping of children belong to the process.
class Supervisor {
 public:
  /// `signals` are the launcher's; they must outlive it.
  Supervisor(JobSpec job, Signals& signals);

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
  void suspend();
  void reap();
  void ended(int rank, int wait_status);
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
  rlimit former_file_limit_;  // the ranks' own: ours must hold four files a rank
  OutputQueue output_{1}, error_{2};
  std::vector<Rank> ranks_;
  FileDescriptor ends_;  // tells which ranks have ended, in the order in which they did
  std::optional<std::int64_t> memory_kills_before_;
  RunState state_;
  Clock::time_point deadline_ =
      Clock::time_point::max();  // of the grace period, or of giving up after SIGKILL
  bool log_failed_ = false;
  bool told_of_closed_output_ = false;
};

}  // namespace hookline
