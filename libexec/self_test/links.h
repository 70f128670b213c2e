// Measures how fast two ranks communicate.
#pragma once

#include <string>
#include <vector>

#include "libexec/self_test/checks.h"
#include "parallel/world/world.h"

namespace hookline {

/// Measures one pair after the other, while the other ranks wait, and measures slow ones again. Returns the
/// same on every rank. `nodes`: the node of each rank. A collective call.
std::vector<Link> measure_links(World& world, const std::vector<std::string>& nodes);

}  // namespace hookline
