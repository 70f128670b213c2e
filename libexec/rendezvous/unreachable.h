// Why a node could not join, for people.
#pragma once

#include <string>

#include "libexec/rendezvous/place.h"

namespace hookline {

/// When the time to join is over: tries to connect once more, to tell a store that is not there from a stranger. `taken_here` says
/// whether this node could not serve the store because its port is taken, and `reason` what the store's client says.
std::string why_unreachable(const StorePlace& place, bool taken_here, const std::string& reason);

}  // namespace hookline
