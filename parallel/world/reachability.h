// Checks that the nodes of a run can connect to each other, before Gloo would wait half an hour for one that
// can't.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

namespace hookline {

/// The address under which Gloo lets the other ranks reach this one: that of the interface that
/// GLOO_SOCKET_IFNAME names, else `towards_store`, which leads to the store. Throws Error if there is no such
/// interface, or it has no address.
std::string address_for_gloo(const std::string& towards_store);

/// Connects to each of the other nodes, by ports that the system chooses, as Gloo's are. Called by one rank
/// of each node, with the node's own `address`. Throws Error, with the same text on every node, if a node
/// can't reach another: it names both, what came of it within `patience`, and what to do.
void expect_nodes_reach_each_other(c10d::Store& store, int node, int nodes, const std::string& address,
                                   std::chrono::milliseconds patience);

}  // namespace hookline
