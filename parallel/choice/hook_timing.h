// What a communication hook computes and sends for a model's buckets: measured by running it without other
// ranks.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "hooks/catalog/hook_cost.h"
#include "hooks/comm_hook.h"

namespace hookline {

using HookBuilder = std::function<std::unique_ptr<CommHook>(const HookContext& context)>;

/// Returns the cost of a step with the hook that `build` makes, as rank 1 of `world_size`: many hooks log on
/// rank 0. Returns the hook's own estimate if it has one. Otherwise runs the hook on copies of the gradients
/// of `buckets`, or of the parameters where there is no gradient, bucket by bucket as the Reducer would.
/// Collectives send nothing: they complete after CommHook::run has returned, with their tensors unchanged.
/// The first step, and steps up to CommHook::first_full_step(), are not measured. Of the next two steps the
/// faster one counts if they agree within a tenth, else the median of three; the margin is the slowest step's
/// relative excess. Measuring stops after a step that takes longer than `hopeless_seconds`.
/// Needs memory for one more set of gradients and for the hook's state. CPU only.
/// Throws what the hook throws; throws Error if the hook begins to compress after step 10, or if its estimate
/// has the wrong number of buckets or a number that is negative or not finite.
HookCost cost_of_hook(const HookBuilder& build, int world_size, const BucketParameters& buckets,
                      double hopeless_seconds);

}  // namespace hookline
