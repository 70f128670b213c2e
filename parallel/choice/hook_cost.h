// What a communication hook computes and sends for a model's buckets: measured by running it without other ranks.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "hooks/comm_hook.h"
#include "prediction/step_plan.h"

namespace hookline {

using HookBuilder = std::function<std::unique_ptr<CommHook>(const HookContext& context)>;

/// Runs a hook that `build` makes for rank 1 of `world_size`, since many a hook logs on rank 0, on copies of the gradients of `buckets`
/// (of the parameters, where there are none), bucket by bucket as the Reducer would. Its collectives reach nobody: they end, with the
/// tensors as they are, when CommHook::run has returned. The first steps, and those before CommHook::first_full_step(), are not
/// measured; of three that follow, the fastest counts. One that takes longer than `hopeless_seconds` is the last.
/// Works for any hook that keeps to CommHook::run: it waits for nothing there, and goes on in what follows its collectives. Takes the
/// memory of one more set of gradients, and of the hook's state. On the CPU.
/// Throws what the hook throws, and Error for one that begins to compress after step 10.
std::vector<BucketCost> measure_hook(const HookBuilder& build, int world_size,
                                     const BucketParameters& buckets, double hopeless_seconds);

}  // namespace hookline
