// How this node and the coordinator reach each other.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "launcher/rendezvous/run_secret.h"

namespace hookline {

/// Where the nodes meet, and who this one is.
struct MeetingPlace {
  bool alone = false;     // there is no other node: the link is only for the ranks' store
  bool serves = false;    // the nodes are to meet at this one
  bool may_join = false;  // it may join instead if they already meet at another launcher of this host
  std::string address;
  std::string name;  // main_address as written, or what the scheduler calls it; alike on all nodes
  int port = 0;
  std::string run_id;
  std::string node;  // this one's id
  std::chrono::duration<double> join_timeout{300};
  std::chrono::duration<double> node_timeout{5};  // without a heartbeat
  RunSecret secret;                               // by default this user's own, whose token is not read yet
};

/// One line that came.
struct LinkWord {
  enum class Kind {
    serves,    // `text` says whether the nodes meet at this one: "yes" or "no"
    up,        // for the coordinator: `text` is an Up of `node`, at `address`
    down,      // from the coordinator: a Down
    lost,      // `node` sends no heartbeat
    back,      // `node` does again
    store,     // where this node's ranks reach the store: "ROUND NAME PORT ADDRESS", see open_store()
    stranger,  // a connection was refused: `text` is its host's address, or empty; once for each address
    warning,   // `text` is for people
    gone,      // the coordinator's node can't be reached, or never could; `text` says how
    broken,    // the link broke at this node's end; `text` says how
    unusable   // this node can't take part, or can't continue: `text` says why
  };
  Kind kind = Kind::gone;
  std::string text;
  std::string node = {};
  std::string address = {};  // of the host of an `up`'s node, in digits; may be empty
};

/// Lines between nodes: up to the coordinator, and down from it. Messages between the coordinator and its own
/// node do not pass through a link.
class NodeLink {
 public:
  virtual ~NodeLink() = default;

  /// Readable when a line has come from outside; -1 if none can.
  virtual int descriptor() const = 0;
  virtual void send_up(const std::string& line) = 0;
  /// `node`: its id; empty for all other nodes that are there.
  virtual void send_down(const std::string& node, const std::string& line) = 0;

  /// Meets the other nodes at another place, after `gone` or `unusable`. The answer
  /// is `serves` again, or `gone` or `unusable`.
  virtual void meet(const MeetingPlace& place) = 0;

  /// Opens the store of a round for this node's ranks. The answer is a `store` word, with the name of the
  /// Unix socket at which they reach it. The store itself is at the coordinator's node, which must open it
  /// first. At that node, if `over_tcp`, the answer also has the TCP port at which the ranks of all nodes
  /// reach it; else the port is 0. The address is the one by which this node has reached the coordinator's
  /// node; at the coordinator's node itself, the one by which the other nodes reach this node.
  virtual void open_store(int round, bool over_tcp) = 0;

  /// The next line that has come, if there is one; does not wait.
  virtual std::optional<LinkWord> next() = 0;

  /// Waits until all that was sent has been delivered, for at most `patience`.
  virtual void finish(std::chrono::milliseconds patience) = 0;
};

}  // namespace hookline
