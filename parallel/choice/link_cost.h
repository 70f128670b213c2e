// What all-reduces take on a run's ranks: measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/world/world.h"
#include "prediction/collective_times.h"

namespace hookline {

/// The mean of each value over all ranks, the same on all of them. A collective call.
std::vector<double> means_over_ranks(World& world, const std::vector<double>& values);

/// What a rank measured, and the seconds by which ranks are compared.
struct TimedValues {
  std::vector<double> values;
  double seconds = 0;
};

/// For each entry of `own`, the values of the rank with the most seconds, since the other ranks wait for that
/// one in each step. `own` has the same size on every rank; so has the result. A collective call, unless
/// `own` is empty.
std::vector<std::vector<double>> of_slowest_rank(World& world, const std::vector<TimedValues>& own);

struct LinkCost {
  CollectiveTimes full, half;  // of float32, of float16
};

/// Measures all-reduces over `group`, of a few bytes up to `largest_bytes`, or as large as `budget_seconds`
/// allow for all of them together. Every rank gets the same times, the means over the ranks. On the CPU. A
/// collective call. `name` names it in an error.
LinkCost measure_link(World& world, c10d::ProcessGroup& group, std::int64_t largest_bytes,
                      double budget_seconds, const std::string& name);

/// How many all-reduces time_all_reduce() runs.
inline constexpr int kLooks = 4;

/// Seconds of a float32 all-reduce: the fastest of kLooks, which other load on the machine disturbs the
/// least, averaged over the ranks. A collective call.
double time_all_reduce(World& world, c10d::ProcessGroup& group, std::int64_t bytes, const std::string& name);

}  // namespace hookline
