// Tracks which nodes of a run are alive, by their messages and heartbeats. Pure: callers pass the time.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/liveness.h"

namespace hookline {

class NodeLives {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A node is lost `timeout` after its last heartbeat. This process's own node, `own`, never is.
  NodeLives(std::string own, std::chrono::milliseconds timeout) : own_(std::move(own)), timeout_(timeout) {}

  /// Handles a message for the coordinator. Its sender is watched from then on, until it leaves. A node that
  /// was lost may come back with a hello. A line that is not a message is ignored.
  void heard(const std::string& line, Time now);

  /// The nodes whose heartbeats matter: those that have neither left nor been lost.
  std::vector<std::string> watched() const { return nodes_.present(); }

  /// Notes the heartbeat of a watched node, as it was read at `now`.
  void read(const std::string& node, const std::string& heartbeat, Time now) {
    nodes_.hear(node, heartbeat, now);
  }
  /// The nodes that were lost since the last call: their heartbeats have not changed for longer than the
  /// timeout.
  std::vector<std::string> take_lost(Time now);

 private:
  std::string own_;
  std::chrono::milliseconds timeout_;
  Liveness<std::string> nodes_;
};

}  // namespace hookline
