// The relay of the node where the others meet: passes lines between its launcher, which is the
// coordinator, and all other nodes, and holds the store of the run's ranks.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <zmq.hpp>

#include "libexec/rendezvous/lines/launcher_socket.h"
#include "libexec/rendezvous/lines/line_stream.h"
#include "libexec/rendezvous/node_lives.h"
#include "libexec/rendezvous/place.h"
#include "libexec/rendezvous/store/store_server.h"
#include "libexec/rendezvous/wire.h"

namespace hookline {

class ServingRelay {
 public:
  /// Begins to take connections. Throws zmq::error_t, with EADDRINUSE if the port is taken. The arguments
  /// must outlive it.
  ServingRelay(const RelayPlace& place, const RunKeys& keys, zmq::context_t& context,
               LauncherSocket& launcher);

  /// Returns when the launcher has closed its end and the other nodes have what it sent to them, or have had
  /// the time to get it.
  void run();

 private:
  using Clock = std::chrono::steady_clock;

  /// Passes on "NODE LINE", which came from the launcher; NODE is "*" for all who are there.
  void pass_on(const std::string& text);
  /// True if it is a heartbeat, or nothing that a node sends.
  bool take(const Received& received, Clock::time_point now);
  void take_line(const Received& received, const LineStream::Frame& frame, LineStream& lines,
                 Clock::time_point now);
  void look_at_connections();
  /// Reports a host whose connection was refused, once; "" if its address is not known.
  void turn_away(const std::string& address);
  bool all_have_everything();
  void send(const std::string& node, const std::string& frame);

  const RelayPlace& place_;
  LauncherSocket& launcher_;
  AccessCheck access_;
  zmq::socket_t socket_;
  ConnectionEvents events_;
  NodeLives lives_;
  std::map<std::string, LineStream> lines_;  // by the nodes' names
  std::set<std::string> owed_answers_, owed_later_;
  std::map<std::string, std::set<std::string>> hosts_;  // the addresses that each node's messages came from
  StoreServer store_;
  std::set<std::string> strangers_;  // addresses of hosts whose connections were refused
};

}  // namespace hookline
