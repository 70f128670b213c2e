// Which node the others wait for: a pure decision.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "launcher/rendezvous/messages.h"

namespace hookline {

/// A node is named if the others spend at least this part of their time waiting for it.
inline constexpr double kNamedFrom = 0.1;

struct SlowestNode {
  std::string node;  // its id
  int rank = 0;      // the global rank of its busiest
  double share = 0;  // how much of its time the median of the other nodes waits for this one
};

/// `paces`: of every node, by its id. When all ranks step together, the busiest rank of the slowest node
/// waits least. What each other node loses is the extra time for which its own busiest rank waits.
std::optional<SlowestNode> slowest_node(const std::map<std::string, NodePace>& paces);

}  // namespace hookline
