// Runs a test's body on several ranks, as threads of this process.
#pragma once

#include <functional>
#include <memory>

#include "parallel/process_group.h"

namespace hookline::testing {

using RankBody = std::function<void(const std::shared_ptr<World>& world)>;

/// Calls `body` once a rank, each on a thread of its own, over Gloo on the loopback interface and a store in
/// memory.
/// Waits for all; rethrows the exception of the lowest rank that failed. GoogleTest's non-fatal assertions work inside.
void run_ranks(int ranks, const RankBody& body, const Placement& placement = {});

}  // namespace hookline::testing
