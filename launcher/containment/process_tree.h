// The processes below this one, as /proc shows them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

#include "launcher/containment/run_bounds.h"

namespace hookline {

/// A process as it was seen. By the time it is signalled it may have ended, and its number may be another's.
struct SeenProcess {
  pid_t pid = 0;
  pid_t group = 0;
  unsigned long long start_time =
      0;  // in clock ticks since the system started: with the pid, it tells processes apart
};

/// All processes below this one that have not ended: children, their children, and so on. Without a /proc,
/// none.
std::vector<SeenProcess> descendants();
/// All processes below another process.
std::vector<SeenProcess> descendants_of(pid_t process);

/// Is any child of this process left, running or not yet reaped? Reaps one that has ended.
bool has_children();

/// Does the process run? One that has ended does not, reaped or not.
bool is_running(pid_t process);

/// Was the process stopped, by a signal or a debugger?
bool is_stopped(pid_t process);

/// Sends `signal` to the process that was seen, never to one that got its number since.
void signal_process(const SeenProcess& process, int signal);

/// Kills and reaps everything below this process and within `bounds`, repeatedly, until nothing is left,
/// including what is started in the meantime. False if something is left after `patience`: a process that the
/// kernel can't end yet. For a subreaper with a single thread.
bool kill_descendants(std::chrono::milliseconds patience, const RunBounds& bounds);

}  // namespace hookline
