// Two processes that look after each other, so that no rank outlives the launcher.
#pragma once

#include <functional>

#include "launcher/supervise/run_bounds.h"
#include "launcher/supervise/signals.h"

namespace hookline {

/// Runs `keep` in a process of its own, the keeper, and returns its exit code; in the keeper, returns what `keep` does.
///
/// The keeper starts the ranks and does all the work. The process that called this, which is the one that a shell or a
/// scheduler knows, passes its signals on and waits. Each is a subreaper: what ranks leave behind becomes a child of the
/// keeper, and of this process once the keeper is gone. If the keeper is killed, this process kills everything below it
/// and returns 128 + the signal. If this process is killed, the keeper's `signals` say SIGKILL, and it kills everything
/// below it. The keeper has a process group of its own, so that a kill of this one's meets one of the two, and calls itself
/// "hl-keeper", so that not even `killall -9 hookline` and `pkill -9 -f PROGRAM` end both. Where `bounds` isolate the run, the keeper is the first
/// process of its namespace, and the kernel kills all others in it with the keeper: also if both are killed at once.
///
/// `signals` is to be made before, and is the keeper's from then on, as `bounds` are, which are removed after the run. Call
/// it without other threads. Throws std::system_error or NamespaceRefused if the system refuses the process.
int run_guarded(Signals& signals, RunBounds& bounds, const std::function<int()>& keep);

}  // namespace hookline
