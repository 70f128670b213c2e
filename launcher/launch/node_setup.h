// What a config says of the nodes of a run.
#pragma once

#include <optional>
#include <string>

#include "config/schema/run_config.h"
#include "launcher/rendezvous/run_nodes.h"

namespace hookline {

/// Does the run have, or may it have, more than one node?
bool has_many_nodes(const LaunchConfig& config);

/// Says what is wrong, and returns false, if [launch] node_rank is beyond nnodes.
bool node_rank_fits(const RunConfig& config);

RestartPolicy restart_policy(const RunConfig& config);

/// How this node meets the others. Nothing, and said why, if the config can't be right: no address, one that does not
/// resolve, or that of another host on the node of rank 0.
std::optional<NodeSetup> node_setup(const RunConfig& config, int ranks);

}  // namespace hookline
