// Which nodes of a run are alive, by what they say and by their heartbeats. Pure: it is given the time.
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

  /// Takes a message for the coordinator: whoever sends one is watched from then on, until it leaves. One that was taken for lost
  /// may come back with a hello. A line that is no message counts for nothing.
  void heard(const std::string& line, Time now);

  /// The nodes whose heartbeats matter: neither gone nor lost.
  std::vector<std::string> watched() const { return nodes_.present(); }

  /// The last heartbeat of a node that is watched, as it was read at `now`.
  void read(const std::string& node, const std::string& heartbeat, Time now) {
    nodes_.hear(node, heartbeat, now);
  }
  /// The nodes that are lost since this was asked last: their heartbeats stayed the same for longer than the timeout.
  std::vector<std::string> take_lost(Time now);

 private:
  std::string own_;
  std::chrono::milliseconds timeout_;
  Liveness<std::string> nodes_;
};

}  // namespace hookline
