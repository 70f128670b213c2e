// What each hook that may be chosen computes and sends in a step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/hook_settings.h"
#include "hooks/hook_cost.h"
#include "hooks/hook_state.h"
#include "parallel/world/process_group.h"

namespace hookline {

struct HookCosts {
  std::vector<std::optional<HookCost>> costs;  // one a setting; none of one that is left out
  std::vector<std::string> left_out;           // why: "fp16: …"
  double seconds = 0;                          // that this took
};

/// Of `settings`, one after the other, those in a wrapper last, until that has taken `budget_seconds`; one that fails on some rank is left
/// out. The same on every rank, of the slowest one; a collective call. `hopeless_seconds`: see cost_of_hook.
HookCosts costs_of(World& world, const BucketParameters& buckets, const std::vector<HookSetting>& settings,
                   double budget_seconds, double hopeless_seconds);

/// What is sent without a hook.
std::vector<BucketCost> cost_without_a_hook(const BucketParameters& buckets);

/// The cores that the ranks of this host may run on, for each of them, in units of what a rank's own arithmetic uses. Ranks may share
/// all of them, or be bound to some each. A collective call.
double cores_of_a_rank(World& world);

}  // namespace hookline
