// Where and how `hookline sweep` runs, as it is kept with the results.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/sweep/file/sweep_file.h"
#include "launcher/sweep/run_sweep.h"
#include "launcher/sweep/state.h"

namespace hookline {

/// The cores and GPUs of this machine that trials may use.
SweepMachine machine_for_trials();

/// The fixed values that all trials have: those that the baseline does not override.
Assignments same_in(const SweepFile& sweep);

/// `arguments`: of the command. The sweep starts now.
SweepFacts facts_of(const std::filesystem::path& file, const SweepFile& sweep, const SweepMachine& machine,
                    const std::vector<std::string>& arguments);

}  // namespace hookline
