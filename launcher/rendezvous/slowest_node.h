// Which node the others wait for: a pure decision.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "launcher/rendezvous/messages.h"

namespace hookline {

/// A node is named if the others wait for it this part of their time, or longer.
inline constexpr double kNamedFrom = 0.1;

struct SlowestNode {
  std::string node;  // its id
  int rank = 0;      // of the whole run: its busiest
  double share = 0;  // how much of its time the median of the other nodes waits for this one
};

/// `paces`: of every node, by its id. In steps that all ranks take together, the busiest rank of a slow node
/// waits the least. The other nodes lose the time by which their busiest ranks wait longer.
std::optional<SlowestNode> slowest_node(const std::map<std::string, NodePace>& paces);

}  // namespace hookline
