// What `hookline sweep` says of its plan and of its trials.
#pragma once

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "launcher/sweep/grid_points.h"
#include "launcher/sweep/run_sweep.h"
#include "launcher/sweep/state.h"

namespace hookline {

/// The most that is listed of anything, but for --dry-run.
inline constexpr std::size_t kMostShown = 20;

/// The combinations that can't run, `most` of them.
void list_invalid(const SweepPlan& plan, const Assignments& same, bool refuses, std::size_t most);

/// A hook that compresses at no step makes a row that looks like an uncompressed one.
void list_never_starting(const SweepPlan& plan, const Assignments& same, std::size_t most);

/// Before anything runs: nobody may act on what is tried.
void warn_of_script(const std::string& program, const std::set<std::string>& keys);

/// After trials have run: nobody has acted on what was tried.
void warn_of_unread_configs(const std::vector<Trial>& trials, const std::filesystem::path& folder,
                            const std::set<std::string>& keys);

/// After trials have run: a hook that has compressed at no step of them, so that its row and an uncompressed one differ by chance.
void list_idle(const SweepPlan& plan, const std::vector<Trial>& trials, const Assignments& same);

/// On standard output.
void print_plan(const SweepPlan& plan, const Assignments& same, bool json);

/// Where to look, and what to do about them.
void tell_of_failures(const std::vector<Trial>& trials, const SweepRun& run);

/// Says if trials that run at once have to share cores or GPUs.
void check_places(const SweepRun& run, std::size_t trials);

}  // namespace hookline
