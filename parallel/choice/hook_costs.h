// What each hook that may be chosen computes and sends in a step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/checks/hook_settings.h"
#include "hooks/catalog/hook_cost.h"
#include "hooks/hook_state.h"
#include "parallel/world/world.h"
#include "prediction/collective_times.h"

namespace hookline {

struct HookCosts {
  std::vector<std::optional<HookCost>> costs;  // by setting; none if it was not timed
  std::vector<bool> is_broken;                 // true: it can't be timed; false without a cost: out of time
  std::vector<std::string> failures;           // why: "fp16: …"
  double seconds = 0;                          // that this took
};

/// Times `settings` one after another, wrapped hooks last, until `budget_seconds` are used up. Leaves out a
/// setting that fails on any rank. Returns the slowest rank's costs, the same on every rank. A collective
/// call. `hopeless_seconds`: see cost_of_hook.
HookCosts costs_of(World& world, const BucketParameters& buckets, const std::vector<HookSetting>& settings,
                   double budget_seconds, double hopeless_seconds);

/// Converts `cost`, which is for `buckets`, to the same parameters in the buckets `others`: each parameter
/// brings its part of the cost of its bucket, in proportion to its elements.
HookCost in_other_buckets(const HookCost& cost, const BucketParameters& buckets,
                          const BucketParameters& others);

/// The cost of a hook that works between hosts: its own `cost`, preceded by an exact average inside each host
/// of the bytes sent `without_a_hook`.
HookCost after_average_within_host(const HookCost& cost, const std::vector<BucketCost>& without_a_hook,
                                   const CollectiveTimes& inside);

/// What is sent without a hook.
std::vector<BucketCost> cost_without_a_hook(const BucketParameters& buckets);

/// Cores per computing thread of a host's ranks, on the host with the fewest, since all other ranks wait for
/// its ranks; at least 1. Ranks may share a host's cores or be bound to some of them. The same on every rank.
/// A collective call.
double cores_of_a_rank(World& world);

}  // namespace hookline
