// Tracks which nodes of a run are alive, by what arrives from them. Pure: callers pass the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/liveness.h"
#include "libexec/rendezvous/patience.h"

namespace hookline {

class NodeLives {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A node is lost `timeout` after the last frame that arrived from it, or later if its frames have come
  /// late (Patience).
  explicit NodeLives(std::chrono::milliseconds timeout) : timeout_(timeout) {}

  /// A frame from `node` has arrived. True if the node was lost until now: it is watched again.
  bool heard(const std::string& node, Time now);
  /// Handles a line of `node` for the coordinator. A node is watched from its first line, even one
  /// that is not a message, until it leaves.
  void took(const std::string& node, const std::string& line, Time now);

  /// The nodes that have neither left nor been lost.
  std::vector<std::string> watched() const { return nodes_.present(); }

  /// The nodes that were lost since the last call. If the caller itself paused between two calls, nobody is
  /// lost for that.
  std::vector<std::string> take_lost(Time now);

 private:
  std::chrono::milliseconds timeout_;
  Liveness<std::string> nodes_;
  std::map<std::string, Patience> patience_;
  std::set<std::string> lost_;
  std::uint64_t frames_ = 0;
  Time looked_{};  // when take_lost() was called last
};

}  // namespace hookline
