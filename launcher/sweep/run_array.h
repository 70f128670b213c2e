// Runs the trials of a sweep as elements of array jobs, which continue without this process.
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

/// The trials of a sweep that Slurm jobs still have to finish.
struct TrialsInJobs {
  std::map<std::string, std::string> jobs;  // by the trial's id
  std::optional<int> signal;                // the signal that asked to stop before this was known
};

/// Finds the trials of `plan` that are in jobs; the state must contain the plan. Adds new results to the
/// state; a trial that ended without a result is reported, and is to run again. Asks Slurm only if the
/// sweep's folder keeps a job. Throws SlurmError or Error.
TrialsInJobs trials_in_jobs(const SweepRun& run, const SweepPlan& plan, SweepState& state, Signals& signals);

/// The trials that are to be submitted next.
struct NextTrials {
  std::vector<std::string> ids;
  std::optional<std::size_t>
      budget;  // set if budget_trials keeps others waiting: trials begun, `ids` included
};

/// Those that wait and are not `busy`, in the plan's order, as far as the budget goes.
NextTrials next_trials(const std::vector<Trial>& trials, const std::set<std::string>& busy,
                       const std::optional<std::int64_t>& budget_trials);

struct ArrayEnd {
  SweepEnd end;
  bool continues = false;  // true: this command ended without following the jobs, which may still have trials
};

/// Submits the waiting trials of `plan` that are in no job. With `follows`, adds results to the state as they
/// arrive until none is missing or a signal asks to stop; the jobs then continue. Reports progress. A trial
/// that ends without a result makes the sweep fail. Throws as trials_in_jobs does, and TemplateError.
ArrayEnd run_array(const SweepRun& run, const ArrayRequest& request, const SweepPlan& plan, SweepState& state,
                   Signals& signals, bool follows);

}  // namespace hookline
