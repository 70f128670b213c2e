// The encrypted connections between nodes: libzmq's sockets with CURVE.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "libexec/rendezvous/lines/launcher_socket.h"
#include "libexec/rendezvous/run_keys.h"

namespace hookline {

/// A socket that takes connections on `endpoint`, and only from those who hold the run's secret. Throws
/// zmq::error_t.
zmq::socket_t serving_socket(zmq::context_t& context, const RunKeys& keys, const std::string& endpoint);

/// A socket to be connected, which connects again if the connection breaks. The serving side knows it as
/// `node`. Throws zmq::error_t.
zmq::socket_t joining_socket(zmq::context_t& context, const RunKeys& keys, const std::string& node);

/// Decides whose connections the serving sockets of a context take: libzmq asks it for every handshake
/// (ZAP, rfc.zeromq.org/spec/27).
class AccessCheck {
 public:
  /// It must live longer than the serving socket: without it libzmq takes everybody. Throws zmq::error_t.
  AccessCheck(zmq::context_t& context, const RunKeys& keys);

  zmq::socket_t& socket() { return socket_; }
  /// Answers all questions that have come. Returns the addresses, in digits, of those who are not let in.
  std::vector<std::string> answer();

 private:
  zmq::socket_t socket_;
  std::string allowed_;  // the public key of those who join
};

/// What happens to the connections of a socket. It must be destroyed before the socket.
class ConnectionEvents {
 public:
  /// Throws zmq::error_t.
  ConnectionEvents(zmq::context_t& context, zmq::socket_t& watched);
  ~ConnectionEvents();
  ConnectionEvents(const ConnectionEvents&) = delete;
  ConnectionEvents& operator=(const ConnectionEvents&) = delete;

  zmq::socket_t& socket() { return socket_; }

  enum class Event { connected, joined, refused, broken_off, disconnected };
  /// The next event that has come; does not wait. `joined`: both sides have proved that they hold the secret.
  /// `refused`: the other side failed to prove it; a serving socket does not report those that AccessCheck
  /// refuses. `broken_off`: it closed the connection before it could. `disconnected`: a connection is over;
  /// it also follows `broken_off`.
  std::optional<Event> next();

  /// After `refused` at a serving socket: the other side's address, in digits. Empty if the connection was
  /// over before that could be asked.
  const std::string& address() const { return address_; }

 private:
  struct Raw {
    int kind = 0, value = 0;  // as libzmq has them: the value of some kinds is a descriptor
  };
  std::optional<Raw> read();
  void ask_for_peer(int descriptor);  // of a connection that was just accepted

  void* watched_;
  zmq::socket_t socket_;
  std::deque<Raw> come_;              // but not returned by next() yet
  std::map<int, std::string> peers_;  // addresses of a serving socket's connections, by descriptor
  bool is_refusing_ = false;          // the connection whose end is the next event
  std::string address_;
};

/// What to wait for at the launcher's end: lines, if `reads`, and room for those that are left to be sent.
zmq::pollitem_t item_of(const LauncherSocket& launcher, bool reads);

/// Waits until something has come to one of the sockets, or for `patience`. Throws zmq::error_t.
void wait_for_any(std::vector<zmq::pollitem_t>& items, std::chrono::milliseconds patience);

/// The next frame that has come to a joining socket; does not wait. Frames of another form than nodes send
/// are dropped.
std::optional<std::string> receive(zmq::socket_t& socket);

struct Received {
  std::string node;     // that sent it
  std::string address;  // of its host, in digits
  std::string frame;
};

/// The same for a serving socket.
std::optional<Received> receive_from_any(zmq::socket_t& socket);

}  // namespace hookline
