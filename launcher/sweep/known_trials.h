// What is known of a plan's trials: by the state, and by results that were written where they ran.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "launcher/sweep/state.h"
#include "launcher/sweep/trial_result.h"

namespace hookline {

/// Those of `plan`, which the state has taken, in its order. Results in trials' folders that the state lacks are taken into
/// it, and what was judged by another metric is judged anew. A result that can't be read is warned of, and its trial waits;
/// what it has left is set aside, unless it is one of `busy`, which still run. Throws Error.
std::vector<Trial> known_trials(const std::filesystem::path& folder, const SweepPlan& plan,
                                const Yardstick& by, SweepState& state,
                                const std::set<std::string>& busy = {});

/// What is known, without changing anything; the state may be that of a running sweep, or not be there yet.
std::vector<Trial> recorded_trials(const std::filesystem::path& folder, const SweepPlan& plan);

/// Does it for one trial: false if there is no result of it yet. Throws UnreadableResult too.
bool take_in_result(const std::filesystem::path& folder, const Yardstick& by, Trial& trial,
                    SweepState& state);

/// Warns that a trial's result can't be read, and keeps what it has left.
void set_unreadable_aside(const std::filesystem::path& folder, const Trial& trial, const std::string& why);

bool any_failed(const std::vector<Trial>& trials);
std::size_t count_ended(const std::vector<Trial>& trials);

}  // namespace hookline
