// The node_relay of a run on one host: it holds the store of a Python program's ranks.
#pragma once

#include "libexec/rendezvous/lines/launcher_socket.h"
#include "libexec/rendezvous/place.h"

namespace hookline {

/// Serves the store at `place`'s address, which is one of this host's own, until the launcher closes its
/// end. Throws std::system_error.
void serve_lone_node(const RelayPlace& place, LauncherSocket& launcher);

}  // namespace hookline
