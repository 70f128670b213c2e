// Explains why a node could not join.
#pragma once

#include <string>

#include "libexec/rendezvous/place.h"

namespace hookline {

/// To be called when the time to join is over. Connects once more, to distinguish a store that is not there
/// from another program on its port. `taken_here`: this node could not serve the store because the port is
/// taken. `reason`: the error of the store's client.
std::string why_unreachable(const StoreArguments& place, bool taken_here, const std::string& reason);

}  // namespace hookline
