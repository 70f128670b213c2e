// Which part of a run continues when its nodes have lost each other: a pure decision.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "launcher/rendezvous/messages.h"

namespace hookline {

/// The members of a round, of which at most one part may continue the run if they lose each other: two would
/// both train, and overwrite each other's checkpoints. So each part that continues has more than half of
/// them; with the coordinator of that round, half is enough. A member counts towards one part
/// only: the one whose next round it joins. Once it has a seat in a later round, it no longer counts as a
/// member of the earlier one. Until all members of that later round have their seats, no node can continue
/// from it if the round's coordinator is lost.
struct Electorate {
  int round = 0;
  std::size_t size = 0;         // of the round
  std::set<std::string> nodes;  // its members, as far as they are known
  bool has_coordinator = true;  // whether the part given to allows() has the round's coordinator

  /// How many of the members that are known are in a part of the run with these nodes?
  std::size_t count_in(const std::set<std::string>& part) const {
    return static_cast<std::size_t>(std::count_if(
        nodes.begin(), nodes.end(), [&](const std::string& node) { return part.contains(node); }));
  }
  /// May that part continue?
  bool allows(const std::set<std::string>& part) const {
    return has_coordinator ? 2 * count_in(part) >= size : 2 * count_in(part) > size;
  }
};

/// What the new coordinator of a run knows when it takes the place of another.
struct TakenOver {
  Succession from;
  std::optional<std::int64_t> furthest = {};  // step of this node's ranks in that round
  std::chrono::duration<double> patience{0};  // for the other members of that round to come
};

}  // namespace hookline
