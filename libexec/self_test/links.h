// How fast two ranks talk to each other.
#pragma once

#include <string>
#include <vector>

#include "libexec/self_test/checks.h"
#include "parallel/world/process_group.h"

namespace hookline {

/// One pair after the other, while the other ranks wait, and those that seem slow once more; the same on every rank. `nodes`: on which each rank is.
/// A collective call.
std::vector<Link> measure_links(World& world, const std::vector<std::string>& nodes);

}  // namespace hookline
