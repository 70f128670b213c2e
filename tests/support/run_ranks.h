// Runs a test's body on several ranks, as threads of this process.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "parallel/world/placement.h"
#include "parallel/world/world.h"

namespace hookline::testing {

using RankBody = std::function<void(const std::shared_ptr<World>& world)>;

/// `wanted`, adjusted to the environment: no shared memory if HOOKLINE_LAUNCH__BACKEND is gloo, as in a run,
/// unless `wanted` asks for it always; if TESTED_RANKS is on_two_hosts, every second rank is on a second
/// host, unless `wanted` names one.
Placement placed(int rank, Placement wanted = {});

/// Calls `body` once per rank, each on its own thread, with a World made from placed(rank, placement) and an
/// in-memory store. The ranks communicate over shared memory, over Gloo on the loopback interface, or as
/// `placement` says. Waits
/// for all and rethrows the exception of the lowest rank that failed. GoogleTest's non-fatal assertions work
/// inside.
void run_ranks(int ranks, const RankBody& body, const Placement& placement = {});

/// The same for ranks with different placements.
void run_ranks_with(const std::vector<Placement>& placements, const RankBody& body);

/// The same for ranks that act as if on several hosts: `host_of[r]` is rank r's host.
void run_ranks_on_hosts(const std::vector<int>& host_of, const RankBody& body);

}  // namespace hookline::testing
