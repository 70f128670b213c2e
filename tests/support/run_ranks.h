// Runs a test's body on several ranks, as threads of this process.
#pragma once

#include <functional>
#include <memory>

#include "parallel/placement.h"
#include "parallel/process_group.h"

namespace hookline::testing {

using RankBody = std::function<void(const std::shared_ptr<World>& world)>;

/// `wanted`, without shared memory if HOOKLINE_LAUNCH__BACKEND is gloo in the environment, as for a run.
Placement placed(Placement wanted = {});

/// Calls `body` once a rank, each on a thread of its own, placed(placement) and with a store in memory: over memory that they share, or over
/// Gloo on the loopback interface.
/// Waits for all; rethrows the exception of the lowest rank that failed. GoogleTest's non-fatal assertions work inside.
void run_ranks(int ranks, const RankBody& body, const Placement& placement = {});

}  // namespace hookline::testing
