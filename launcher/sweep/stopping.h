// Which trials are hopeless: pure functions of what they and the others have logged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/sweep/metrics_file.h"

namespace hookline {

using History = std::vector<MetricPoint>;
using Histories = std::vector<const History*>;

/// How many others there have to be before a trial is compared with them.
inline constexpr std::size_t kFewestOthers = 3;

/// Of three trials, one continues beyond a rung.
inline constexpr std::int64_t kHalvingFactor = 3;

/// Is `a` the better of two values of a metric?
bool is_better(double a, double b, bool smaller_is_better);

/// True if the last two values are not finite, and the last is of step `from` or later; a run may recover
/// from a single such value.
bool has_diverged(const History& own, std::int64_t from);

/// Why the median rule stops a running trial: its best value so far is worse than the median of the `ended`
/// trials' running averages at its last step. Empty if it may continue, as it always may before step `from`.
/// Source: Golovin et al., Google Vizier, KDD 2017, section 3.2.2.
std::string hopeless_by_median(const History& own, const Histories& ended, bool smaller_is_better,
                               std::int64_t from);

/// The last rung at or before `step`: `from`, 3 * `from`, 9 * `from`, …; 0 before the first.
std::int64_t rung_at(std::int64_t step, std::int64_t from);

/// Why asynchronous successive halving stops a running trial: at the last rung that it reached, its value is
/// not among the best third of all trials that reached that rung. Empty if it may continue. Rungs are at
/// steps `from`, 3 * `from`, 9 * `from`, … Source: Li et al., A System for Massively Parallel Hyperparameter
/// Tuning (ASHA), MLSys 2020, algorithm 2.
std::string hopeless_by_halving(const History& own, const Histories& others, bool smaller_is_better,
                                std::int64_t from);

}  // namespace hookline
