// What is known of a plan's trials: by the state, and by results that were written where they ran.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "launcher/sweep/state.h"
#include "launcher/sweep/trial_result.h"

namespace hookline {

/// The trials of `plan`, in its order; the state must contain the plan. Adds results from trials' folders
/// that the state lacks, and judges results again that were judged by another metric. If a result can't be
/// read, logs a warning, sets the trial's files aside and lets it wait, unless it is one of `busy`, the
/// trials that jobs still have. Throws Error.
std::vector<Trial> known_trials(const std::filesystem::path& folder, const SweepPlan& plan,
                                const Yardstick& by, SweepState& state,
                                const std::set<std::string>& busy = {});

/// What is known, without changing anything; the state may be that of a running sweep, or not be there yet.
std::vector<Trial> recorded_trials(const std::filesystem::path& folder, const SweepPlan& plan);

/// Does what known_trials() does for one trial; returns false if it has no result yet. Throws
/// UnreadableResult if its result can't be read.
bool take_in_result(const std::filesystem::path& folder, const Yardstick& by, Trial& trial,
                    SweepState& state);

/// Warns that a trial's result can't be read, and sets the trial's files aside.
void set_unreadable_aside(const std::filesystem::path& folder, const Trial& trial, const std::string& why);

bool any_failed(const std::vector<Trial>& trials);
std::size_t count_ended(const std::vector<Trial>& trials);

}  // namespace hookline
