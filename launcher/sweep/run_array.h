// Runs the trials of a sweep as elements of array jobs, which go on without this process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/sweep/array_job.h"
#include "launcher/sweep/run_sweep.h"

namespace hookline {

/// What jobs of Slurm's have of a sweep.
struct TrialsInJobs {
  std::map<std::string, std::string> jobs;  // by the trial's id
  std::optional<int> signal;                // that asked to end before it was clear
};

/// Of `plan`, which the state has taken. Results that have come in are taken into the state; a trial that ended without one is
/// told of, and waits again. Asks Slurm only if the sweep's folder remembers a job. Throws SlurmError, or Error.
TrialsInJobs trials_in_jobs(const SweepRun& run, const SweepPlan& plan, SweepState& state, Signals& signals);

/// The trials that are to be submitted next.
struct NextTrials {
  std::vector<std::string> ids;
  std::optional<std::size_t> budget;  // of trials, if it keeps others from being begun
};

/// Those that wait and are not `busy`, in the plan's order, as far as the budget goes.
NextTrials next_trials(const std::vector<Trial>& trials, const std::set<std::string>& busy,
                       const std::optional<std::int64_t>& budget_trials);

struct ArrayEnd {
  SweepEnd end;
  bool goes_on = false;  // jobs still have trials of the plan
};

/// Submits what waits of `plan` and no job has, and if it `follows`, takes results in as they come until none is left to come
/// or somebody stops it; the jobs go on then. Says how it goes. A trial that ends without a result counts as a failure of the
/// whole. Throws as trials_in_jobs does, and TemplateError.
ArrayEnd run_array(const SweepRun& run, const ArrayRequest& request, const SweepPlan& plan, SweepState& state,
                   Signals& signals, bool follows);

}  // namespace hookline
