// The sockets that ranks are handed.
#pragma once

#include "base/file_descriptor.h"

namespace hookline {

/// The socket on which rank 0 will serve the run's key-value store.
struct StoreSocket {
  FileDescriptor descriptor;
  int port = 0;
};

/// Whom rank 0's store is for.
enum class StoreReach {
  this_host,  // the loopback address
  ipv4,       // all IPv4 addresses of this host
  any,        // all addresses, IPv6 too if the system has it
};

/// Binds a socket to a free port, so that no other run takes the port before rank 0 serves the store. The
/// socket does not listen yet: c10d's TCPStore starts listening when it gets the descriptor. A Python rank 0,
/// which knows only the port, can still bind it (SO_REUSEADDR) while nothing listens. Throws
/// std::system_error.
StoreSocket bind_store_socket(StoreReach reach = StoreReach::this_host);

/// A pair of datagram sockets on which ranks report their progress, in the format of RankReport.
struct StatusSockets {
  FileDescriptor ours, of_ranks;
};

/// Throws std::system_error.
StatusSockets make_status_sockets();

}  // namespace hookline
