// What a communication hook computes and sends for a model's buckets: measured by running it without other ranks.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "hooks/catalog/hook_cost.h"
#include "hooks/comm_hook.h"

namespace hookline {

using HookBuilder = std::function<std::unique_ptr<CommHook>(const HookContext& context)>;

/// What a step takes with the hook that `build` makes for rank 1 of `world_size`, since many a hook logs on rank 0. What the hook does
/// not estimate itself is measured: it runs on copies of the gradients of `buckets` (of the parameters, where there are none), bucket by
/// bucket as the Reducer would. Its collectives reach nobody: they end, with the tensors as they are, when CommHook::run has returned.
/// The first steps, and those before CommHook::first_full_step(), are not measured. Of two that follow and agree within a tenth the faster
/// one counts, else the middle one of three; the margin is what the slowest takes beyond it. One that takes longer than `hopeless_seconds` is the last.
/// Takes the memory of one more set of gradients, and of the hook's state. On the CPU.
/// Throws what the hook throws, and Error for one that begins to compress after step 10, and for an estimate that is none: of other
/// buckets, negative, or not finite.
HookCost cost_of_hook(const HookBuilder& build, int world_size, const BucketParameters& buckets,
                      double hopeless_seconds);

}  // namespace hookline
