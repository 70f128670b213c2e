// What the launcher tells its store_node: where the nodes' store is.
#pragma once

#include <chrono>
#include <string>

namespace hookline {

struct StoreArguments {
  bool serves = false;
  bool may_join = false;  // if another launcher of this host serves the store already
  std::string address, run_id, node;
  int port = 0;
  int descriptor = -1;  // of the socket to the launcher
  std::chrono::milliseconds join_timeout{}, node_timeout{};

  /// "HOST:PORT"
  std::string address_and_port() const { return address + ":" + std::to_string(port); }
};

/// Reads the JSON that the launcher writes. Throws nlohmann's exceptions if it is something else.
StoreArguments place_of(const std::string& json);

}  // namespace hookline
