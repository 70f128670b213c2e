// What is said of a sweep while it runs: pure functions of its trials.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launcher/sweep/metrics_file.h"
#include "launcher/sweep/state.h"

namespace hookline {

/// A trial that runs, "lr=0.1", and how far along it is, " step 120 loss 0.31".
struct RunningText {
  std::string name, state;
};
RunningText running_text(const Trial& trial, const MetricsFile& metrics, const std::string& metric,
                         const Assignments& same);

/// `head`, followed by as many trials as there is room for, with " | " between them. The name of the last one
/// is cut if that makes room for its state.
std::string line_within(std::size_t columns, const std::string& head,
                        const std::vector<RunningText>& running);

/// The total run time of all finished trials.
double seconds_used(const std::vector<Trial>& trials);

/// The estimated total run time of all unfinished trials, limited by the budget; running trials count in
/// full. Assumes that trials take as long as the finished ones did; returns nothing before the first has
/// finished.
std::optional<double> seconds_left(const std::vector<Trial>& trials, const SweepSettings& settings);

/// ", about 3 min left".
std::string time_left_text(double seconds);

}  // namespace hookline
