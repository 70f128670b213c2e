// A run from its first start to its end, restarts included.
#pragma once

#include <cstdint>
#include <functional>

#include "launcher/process/signals.h"
#include "launcher/supervise/restart.h"
#include "launcher/supervise/supervisor.h"

namespace hookline {

/// Runs the job that `make_job` makes for attempt 0, then for further attempts while they fail and `policy`
/// allows a restart. Logs each failure and, at the end, why the run ended. Returns the exit code: that of the
/// last root cause, 128 + the signal that stopped the run, kSavedForLater, or 0. Throws as Supervisor does.
int run_attempts(const RestartPolicy& policy, Signals& signals,
                 const std::function<JobSpec(std::int64_t attempt)>& make_job);

}  // namespace hookline
