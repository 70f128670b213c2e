// What a config says about the nodes of a run.
#pragma once

#include <optional>
#include <string>

#include "config/schema/run_config.h"
#include "launcher/rank/program.h"
#include "launcher/rendezvous/run_nodes.h"

namespace hookline {

/// Can the run have more than one node?
bool has_many_nodes(const LaunchConfig& config);

/// Logs an error and returns false if [launch] node_rank is too large for nnodes.
bool node_rank_fits(const RunConfig& config);

/// How this node meets the others. Logs an error and returns nothing if the config can't be right: it has no
/// address, one that does not resolve, one of a family of which this host has no address, another host's
/// address on the node of rank 0, or a token that can't be used. Without a token in the config or the
/// environment it has none: see take_own_token().
std::optional<NodeSetup> node_setup(const RunConfig& config, const Program& program, int ranks);

/// If neither the config nor the environment says who may join, sets this user's own token in `setup`, and
/// writes one first if there is none. Logs an error and returns false if that token can't be used.
bool take_own_token(NodeSetup& setup);

/// [rendezvous] run_id, or if that is "auto", one made from the program, its arguments and the config.
std::string run_id_of(const RunConfig& config, const Program& program, int ranks);

/// The setup of a run with only this node.
NodeSetup own_setup(const RunConfig& config, const Program& program, int ranks);

/// Do the launchers serve the ranks' store at MASTER_PORT? They do where ranks may know of no other: those of
/// a Python program, and on several nodes those of any script.
bool has_agent_store(const RunConfig& config, const Program& program);

}  // namespace hookline
