// What is known of a plan's trials.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "launcher/sweep/judge.h"
#include "launcher/sweep/state.h"

namespace hookline {

/// Those of `plan`, which the state has taken, in its order. What was judged by another metric is judged anew. Throws Error.
std::vector<Trial> known_trials(const std::filesystem::path& folder, const SweepPlan& plan,
                                const Yardstick& by, SweepState& state);

bool any_failed(const std::vector<Trial>& trials);
std::size_t count_ended(const std::vector<Trial>& trials);

}  // namespace hookline
