// The processes of this node's ranks: starts them, notices their ends, and signals them and all that they
// started.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/file_descriptor.h"
#include "launcher/containment/run_bounds.h"
#include "launcher/process/child.h"

namespace hookline {

/// A child of this process that has ended and is reaped.
struct EndedChild {
  pid_t process = 0;
  int wait_status = 0;
  std::optional<int> rank;  // none: something else that this process, or a rank that is gone, has started
};

/// Ranks are counted from 0 in the order in which they are started. A process has one RankProcesses at a
/// time, since that reaps every child.
class RankProcesses {
 public:
  /// `bounds` must outlive it.
  explicit RankProcesses(const RunBounds& bounds);

  /// Starts the next rank. Throws SpawnError or std::system_error.
  void start(const ChildSpec& child);

  /// The next child that has ended, if there is one; never waits. Ranks come in the order in which they
  /// ended.
  std::optional<EndedChild> next_ended();

  std::vector<int> alive() const;
  /// Those that are alive and were stopped, by a signal or a debugger.
  std::vector<int> stopped() const;
  pid_t process_of(int rank) const { return ranks_.at(static_cast<std::size_t>(rank)).pid; }

  void signal_groups(int signal) const;
  /// What has left the ranks' groups is signalled too.
  void signal_all(int signal) const;

  /// True if a rank, or any process that the ranks started, still runs.
  bool any_left();

  /// Kills and reaps all remaining processes; returns false if some are left after `patience`.
  bool kill_all(std::chrono::milliseconds patience) const;

  /// Records which process groups of ended ranks are empty. The system may reuse such a group's number for
  /// other processes, which must not be signalled.
  void forget_empty_groups();

 private:
  struct Rank {
    pid_t pid = 0;       // and of its process group
    FileDescriptor end;  // readable once the process has ended
    bool is_alive = true;
    bool has_group = true;  // false once the group is empty
  };

  const RunBounds& bounds_;
  std::vector<Rank> ranks_;
  FileDescriptor ends_;  // an epoll set of the ranks' ends, which keeps their order
};

}  // namespace hookline
