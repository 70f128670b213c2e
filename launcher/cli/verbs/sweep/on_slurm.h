// The array job that `hookline sweep --scheduler slurm` asks for, and how --print shows it.
#pragma once

#include <string>

#include "launcher/cli/verbs/sweep/flags.h"
#include "launcher/sweep/array_job.h"
#include "launcher/sweep/grid_points.h"
#include "launcher/sweep/run_sweep.h"

namespace hookline {

/// What is asked of Slurm. Throws UsageError.
ArrayRequest request_of(const SweepRun& run, const NodeResources& resources, const std::string& name,
                        const SweepFlags& flags);

/// Prints the job as it would be submitted. Looks at the sweep's folder, and changes nothing. Returns the
/// exit code.
int print_job(const SweepRun& run, const SweepPlan& plan, const ArrayRequest& request,
              const SweepFlags& flags);

}  // namespace hookline
