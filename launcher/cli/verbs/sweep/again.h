// Selects trials of `hookline sweep` that run again although they have a result; their old files are kept
// beside the new.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/cli/verbs/sweep/flags.h"
#include "launcher/sweep/grid_points.h"
#include "launcher/sweep/run_array.h"
#include "launcher/sweep/run_sweep.h"
#include "launcher/sweep/state.h"

namespace hookline {

/// The ids of the trials that --rerun and --retry-failed select. Throws UsageError.
std::vector<std::string> chosen_again(const SweepFlags& flags, const std::vector<Trial>& trials);

/// Resets the trials that were stopped early by a rule that differs from the sweep file's.
void reset_those_of_other_rules(const SweepRun& run, SweepState& state);

/// Resets the trials that chosen_again() selects. Throws UsageError.
void reset_some(const SweepFlags& flags, const std::filesystem::path& folder, const TrialsInJobs& busy,
                SweepState& state);

/// Logs what a repair did. Sets aside the files of trials of the plan without a sound row, except those that
/// jobs still run or that have a result.
void tell_of_repair(const SweepRun& run, const SweepPlan& plan, const Repair& repair);

}  // namespace hookline
