// One node's part in a run: of several nodes, or alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "launcher/process/signals.h"
#include "launcher/rank/rank_environment.h"
#include "launcher/rank/rank_sockets.h"
#include "launcher/rendezvous/coordinator.h"
#include "launcher/rendezvous/node_link.h"
#include "launcher/rendezvous/relay_link.h"
#include "launcher/supervise/supervisor.h"

namespace hookline {

struct NodeSetup {
  MeetingPlace meeting;
  NodeHello hello;
  NodeLimits limits;
  RestartPolicy policy;
  bool has_agent_store = false;  // the ranks reach the launchers' store by MASTER_ADDR and MASTER_PORT
  std::chrono::duration<double> grace{10};  // how long its ranks may take to stop
};

/// Builds the job that this node runs in a round. `restarts`: of all ranks so far; `store`: the socket of
/// rank 0's store, if that is here.
using MakeNodeJob = std::function<JobSpec(const NodePlace& place, std::int64_t restarts, StoreSocket store)>;

/// Meets the other nodes through `link`, runs this node's ranks in each round that it is a member of, and
/// logs how the run ends. Returns the exit code, the same on all nodes that took part and were not lost: that
/// of the rank that failed first; 75 if the run keeps checkpoints and ends on SIGUSR1; 69 if a node was lost
/// and the ranks had got no further than in an earlier round that lost one; 128 + the signal that stopped a
/// node; 1 if too few nodes joined or are left, or if the coordinator's node is lost and no other takes its
/// place; or 0. A node that took no part returns 2 if the coordinator refused it or the link is `unusable`,
/// and 1 if no launcher accepted its connection in time, or if the run succeeded before a place became free.
/// Throws as Supervisor does.
int run_nodes(const NodeSetup& setup, NodeLink& link, Signals& signals, const MakeNodeJob& make_job);

}  // namespace hookline
