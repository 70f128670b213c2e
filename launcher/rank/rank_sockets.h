// The sockets that ranks are handed.
#pragma once

#include "base/file_descriptor.h"

namespace hookline {

/// On which rank 0 will serve the run's key-value store.
struct StoreSocket {
  FileDescriptor descriptor;
  int port = 0;
};

/// Bound to a free port of the loopback address, or of every address if other hosts are to reach it, so that no other run can take the port before rank 0 serves
/// it. It does not listen: c10d's TCPStore does when it is handed the descriptor, and a Python rank 0, which
/// knows only the port, can bind it as well (SO_REUSEADDR) as long as nobody listens. Throws
/// std::system_error.
StoreSocket bind_store_socket(bool for_other_hosts = false);

/// Datagrams, on which ranks tell how far they are: RankReport has their form.
struct StatusSockets {
  FileDescriptor ours, of_ranks;
};

/// Throws std::system_error.
StatusSockets make_status_sockets();

}  // namespace hookline
