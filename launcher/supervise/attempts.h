// A run from its first start to its end, restarts included.
#pragma once

#include <cstdint>
#include <functional>

#include "launcher/process/signals.h"
#include "launcher/supervise/restart.h"
#include "launcher/supervise/supervisor.h"

namespace hookline {

/// Runs the job that `make_job` makes of an attempt's number, from 0; again while it fails and `policy` has it. Tells of
/// each failure and, in the end, of what ended the run. The exit code: the last root cause's, 128 + the signal that
/// stopped the run, kSavedForLater, or 0. Throws as Supervisor does.
int run_attempts(const RestartPolicy& policy, Signals& signals,
                 const std::function<JobSpec(std::int64_t attempt)>& make_job);

}  // namespace hookline
