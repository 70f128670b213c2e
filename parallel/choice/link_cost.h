// What all-reduces take on a run's ranks: measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/world/process_group.h"
#include "prediction/collective_times.h"

namespace hookline {

/// The mean of each value over all ranks, the same on all of them. A collective call.
std::vector<double> means_over_ranks(World& world, const std::vector<double>& values);

/// What a rank measured, and the seconds by which ranks are compared.
struct TimedValues {
  std::vector<double> values;
  double seconds = 0;
};

/// The values of each of `own`, which has as many on every rank, from the rank where its seconds are the most: the others wait for that
/// one in each step. The same on every rank. A collective call, unless there are none.
std::vector<std::vector<double>> of_slowest_rank(World& world, const std::vector<TimedValues>& own);

struct LinkCost {
  CollectiveTimes full, half;  // of float32, of float16
};

/// Measures all-reduces over `group`, of a few bytes up to `largest_bytes`, or as large as `budget_seconds` allow for all of them
/// together. Every rank gets the same times, the means over the ranks. On the CPU. A collective call. `name` names it in an error.
LinkCost measure_link(World& world, c10d::ProcessGroup& group, std::int64_t largest_bytes,
                      double budget_seconds, const std::string& name);

/// Of so many the fastest counts in time_all_reduce.
inline constexpr int kLooks = 4;

/// One of these all-reduces, of float32: the fastest of some, which is what the link allows whatever else the machine does; the mean
/// over the ranks. A collective call.
double time_all_reduce(World& world, c10d::ProcessGroup& group, std::int64_t bytes, const std::string& name);

}  // namespace hookline
