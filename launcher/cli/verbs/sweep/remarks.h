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

/// The most entries of a list, except with --dry-run and in list_idle().
inline constexpr std::size_t kMostShown = 20;

/// Lists the combinations that can't run, `most` at most.
void list_invalid(const SweepPlan& plan, const Assignments& same, bool refuses, std::size_t most);

/// Lists combinations whose hook would compress at no step, so that their rows would look like uncompressed
/// ones.
void list_never_starting(const SweepPlan& plan, const Assignments& same, std::size_t most);

/// Warns of variables that trials do not get, such as HOOKLINE_LAUNCH__BACKEND.
void warn_of_ignored_variables();

/// Call it before trials run: warns if `program` is a script, which may ignore the `keys` that trials set.
void warn_of_script(const std::string& program, const std::set<std::string>& keys);

/// Call it after trials have run: warns if no rank read the config, so that the `keys` that trials set had
/// no effect.
void warn_of_unread_configs(const std::vector<Trial>& trials, const std::filesystem::path& folder,
                            const std::set<std::string>& keys);

/// Call it after trials have run: lists combinations whose hook compressed at no step of any trial, so that
/// their rows differ from uncompressed ones only by chance.
void list_idle(const SweepPlan& plan, const std::vector<Trial>& trials, const Assignments& same);

/// On standard output.
void print_plan(const SweepPlan& plan, const Assignments& same, bool json);

/// Logs where to look for the causes of failed trials, and how to run them again.
void tell_of_failures(const std::vector<Trial>& trials, const SweepRun& run);

/// Says if trials that run at once have to share cores or GPUs.
void check_places(const SweepRun& run, std::size_t trials);

}  // namespace hookline
