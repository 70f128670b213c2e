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

/// Of three trials, one goes on beyond a rung.
inline constexpr std::int64_t kHalvingFactor = 3;

/// Of two values of a metric.
bool is_better(double a, double b, bool smaller_is_better);

/// Whether the last two values, from step `from` on, are no numbers: of one that is none a run may recover.
bool has_diverged(const History& own, std::int64_t from);

/// Why a running trial is to be ended, by the median rule: at its last step, from step `from` on, its best value is worse
/// than the median of the running averages that `ended` trials had there. Empty: it goes on. Source: Golovin et al., Google
/// Vizier, KDD 2017, section 3.2.2.
std::string hopeless_by_median(const History& own, const Histories& ended, bool smaller_is_better,
                               std::int64_t from);

/// The last rung at or before `step`: `from`, 3 from, 9 from, …; 0 before the first.
std::int64_t rung_at(std::int64_t step, std::int64_t from);

/// The same by successive halving, without waiting for others: rungs are at the steps `from`, 3 from, 9 from, …; a trial goes
/// on beyond the last that it has reached if its value there is among the best third of all that have reached it. Source: Li
/// et al., A System for Massively Parallel Hyperparameter Tuning (ASHA), MLSys 2020, algorithm 2.
std::string hopeless_by_halving(const History& own, const Histories& others, bool smaller_is_better,
                                std::int64_t from);

}  // namespace hookline
