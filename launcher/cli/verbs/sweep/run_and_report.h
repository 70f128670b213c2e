// Runs what `hookline sweep` has planned, and prints what came of it.
#pragma once

#include <optional>

#include "launcher/cli/verbs/sweep/flags.h"
#include "launcher/sweep/array_job.h"
#include "launcher/sweep/grid_points.h"
#include "launcher/sweep/run_sweep.h"
#include "launcher/sweep/state.h"

namespace hookline {

/// On this machine, or as array jobs if there is a `request`. Returns the exit code. Throws UsageError,
/// TemplateError, SlurmError, or Error if the state or a trial's folder can't be written.
int run_and_report(const SweepRun& run, const SweepPlan& plan, const SweepFacts& facts,
                   const std::optional<ArrayRequest>& request, const SweepFlags& flags);

}  // namespace hookline
