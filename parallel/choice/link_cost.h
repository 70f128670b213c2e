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

/// `values` of the rank whose `seconds` are the most, on all of them: the others wait for it in each step. A collective call.
std::vector<double> of_slowest_rank(World& world, const std::vector<double>& values, double seconds);

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
