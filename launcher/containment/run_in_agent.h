// Three processes that watch each other, so that no rank outlives the launcher.
#pragma once

#include <functional>

#include "launcher/containment/run_bounds.h"
#include "launcher/process/signals.h"

namespace hookline {

/// Runs `work` in a process of its own, the agent, which exits with what `work` returns. Returns the agent's
/// exit code.
///
/// The agent starts the ranks and does all the work. The calling process, the launcher, is the one that a
/// shell or a scheduler knows: it passes its signals on to the agent, and waits. Between the two is the
/// sentinel (sentinel.h). All three are subreapers: what ranks leave behind becomes a child of the agent,
/// else of the sentinel, else of the launcher.
///
/// If the agent is killed, sentinel and launcher kill everything below them, and this returns 128 + the
/// signal. If the launcher is killed, the agent's `signals` report SIGKILL, and the agent kills everything
/// below it. If the sentinel is killed, the launcher has the agent do so. If two of the three are killed at
/// one instant, the third kills the ranks. The agent has a process group of its own, so killing the
/// launcher's group spares it. Its name is "hl-agent", so that neither `killall -9 hookline` nor `pkill -9 -f
/// PROGRAM` kills both. If `bounds` isolate the run, the agent is the first process of its namespace: when it
/// dies, the kernel kills all others in it, even if all three were killed at once.
///
/// Make `signals` before the call. `signals` and `bounds` belong to the agent from then on; `bounds` are
/// removed after the run. Call it while the process has a single thread. Throws std::system_error, or
/// std::runtime_error with the system's reason, if the system refuses to start a process.
int run_in_agent(Signals& signals, RunBounds& bounds, const std::function<int()>& work);

}  // namespace hookline
