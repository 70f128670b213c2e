// Three processes that look after each other, so that no rank outlives the launcher.
#pragma once

#include <functional>

#include "launcher/containment/run_bounds.h"
#include "launcher/process/signals.h"

namespace hookline {

/// Runs `keep` in a process of its own, the agent, and returns its exit code; in the agent, returns what `keep` does.
///
/// The agent starts the ranks and does all the work. The process that called this, which is the one that a shell or a
/// scheduler knows, passes its signals on and waits. Between them is the sentinel (sentinel.h). Each is a subreaper: what ranks
/// leave behind becomes a child of the agent, else of the sentinel, else of this process. If the agent is killed, sentinel
/// and guard kill everything below them, and this returns 128 + the signal. If this process is killed, the agent's
/// `signals` say SIGKILL, and it kills everything below it; if the sentinel is, this process has the agent do so. If any two
/// are killed at one instant, the third one does it. The agent has a process group of its own, so that a kill of this one's
/// spares it, and calls itself "hl-agent", so that not even `killall -9 hookline` and `pkill -9 -f PROGRAM` end both.
/// Where `bounds` isolate the run, the agent is the first process of its namespace, and the kernel kills all others in it
/// with the agent: also if all three are killed at once.
///
/// `signals` is to be made before, and is the agent's from then on, as `bounds` are, which are removed after the run. Call
/// it without other threads. Throws std::system_error, or std::runtime_error with what the system says, if it refuses a
/// process.
int run_guarded(Signals& signals, RunBounds& bounds, const std::function<int()>& keep);

}  // namespace hookline
