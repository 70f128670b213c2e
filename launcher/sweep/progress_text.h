// What is said of a sweep while it runs: pure functions of its trials.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/sweep/metrics_file.h"
#include "launcher/sweep/state.h"

namespace hookline {

/// "lr=0.1 step 120 loss 0.31": a trial that runs, and how far it is.
std::string running_text(const Trial& trial, const MetricsFile& metrics, const std::string& metric,
                         const Assignments& same);

/// For how long those that have ended have run together.
double seconds_used(const std::vector<Trial>& trials);

/// For how long trials will still run together, if they go on taking as long as those that have ended, and the budget ends them;
/// those that run now count in full. None before the first has ended.
std::optional<double> seconds_left(const std::vector<Trial>& trials, const SweepSettings& settings);

/// ", about 3 min left".
std::string time_left_text(double seconds);

}  // namespace hookline
