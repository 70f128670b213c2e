// Which trials of `hookline sweep` run again that had a result; what they have left stays beside them.
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

/// The trials that were asked for again. Throws UsageError.
std::vector<std::string> chosen_again(const SweepFlags& flags, const std::vector<Trial>& trials);

/// Those that were ended early by another rule than the file's.
void reset_those_of_other_rules(const SweepRun& run, SweepState& state);

/// Those that were asked for. Throws UsageError.
void reset_some(const SweepFlags& flags, const std::filesystem::path& folder, const TrialsInJobs& busy,
                SweepState& state);

/// Those of the plan that a repair has found no sound row of; says what was repaired.
void tell_of_repair(const SweepRun& run, const SweepPlan& plan, const Repair& repair);

}  // namespace hookline
