// What the launcher tells its node_relay: where the nodes meet, and who this one is.
#pragma once

#include <chrono>
#include <string>

#include "base/text/address_text.h"

namespace hookline {

struct RelayPlace {
  bool alone = false;  // there is no other node, and nothing but the ranks' store is wanted
  bool serves = false;
  bool may_join = false;            // if another launcher of this host serves already
  std::string address, name, node;  // `name` is the same on all nodes, however they write the address
  int port = 0;
  int descriptor = -1;  // of the socket to the launcher
  std::string ticket;   // what a node needs to join, for people
  std::chrono::milliseconds join_timeout{}, node_timeout{};

  std::string address_and_port() const { return host_and_port(address, port); }
};

/// Reads the JSON that the launcher writes. Throws nlohmann's exceptions if it is something else.
RelayPlace place_of(const std::string& json);

}  // namespace hookline
