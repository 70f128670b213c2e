// What a communication hook computes and sends for a model's buckets: measured by running it without other ranks.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "hooks/comm_hook.h"
#include "prediction/step_plan.h"

namespace hookline {

using HookBuilder = std::function<std::unique_ptr<CommHook>(const HookContext& context)>;

/// Runs a hook that `build` makes for rank 1 of `world_size`, since many a hook logs on rank 0, on copies of the gradients of `buckets`, bucket by
/// bucket as the Reducer would. Its collectives reach nobody: each ends, unchanged, when the hook waits for it. The first steps, and
/// those before CommHook::first_full_step(), are not measured; of three that follow, the fastest counts. One that takes longer than
/// `hopeless_seconds` is the last.
/// Works for a hook of any kind, a plug-in's too. On the CPU. Throws what the hook throws.
std::vector<BucketCost> measure_hook(const HookBuilder& build, int world_size,
                                     const BucketParameters& buckets, double hopeless_seconds);

}  // namespace hookline
