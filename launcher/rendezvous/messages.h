// What the nodes of a run tell each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/process/outcome.h"

namespace hookline {

/// A node's first message.
struct NodeHello {
  std::string host;
  int ranks = 1;                              // number of ranks that it will start
  std::optional<int> node_rank;               // the node rank that it requests
  std::map<std::string, std::string> common;  // what must be equal on all nodes
};

/// The port at which rank 0 of a round serves its store.
struct StorePort {
  int round = 0;
  int port = 0;
};

/// The first failure of a rank of this node, told when it happens.
struct NodeFailed {
  int round = 0;
  int rank = 0;  // of the whole run
  Outcome outcome;
  std::optional<std::int64_t> step;  // that it was at
};

/// No rank of this node runs any more.
struct NodeEnd {
  int round = 0;
  std::optional<int> signal;  // the signal that stopped the node, if a user sent one
  bool warned = false;        // SIGUSR1 announced a preemption
  std::string report;         // how `failed_rank` failed, unless the node had been told to stop; for people
  std::optional<int> failed_rank = {};    // of the whole run
  std::optional<std::int64_t> step = {};  // of `failed_rank`: of its error file, or that it reported last
};

/// A node goes, and does not come back.
struct Leave {
  std::optional<int> signal;  // that somebody stopped it with, or that warned of a preemption
};

/// From a node to the coordinator. `node` is the sender's id.
struct Up {
  std::string node;
  std::variant<NodeHello, StorePort, NodeFailed, NodeEnd, Leave> what;
};

struct Member {
  std::string node;  // its id
  std::string host;
  int first_rank = 0;
  int ranks = 1;
};

/// Ranks are to be started: those of each member, in this order.
struct Round {
  int number = 0;
  std::int64_t restarts = 0;  // before it: failures and changes of membership
  std::vector<Member> members;
  int world_size = 0;
};

/// The ranks are to be stopped.
struct StopRound {
  int round = 0;
  std::string why;
};

struct EndRun {
  int exit_code = 0;
  std::string why;  // empty if all went well
};

/// A node can't take part.
struct Refuse {
  std::string node;
  std::string why;
};

/// For people.
struct Say {
  std::string text;
  bool is_warning = false;
};

/// From the coordinator to all nodes.
using Down = std::variant<Round, StorePort, StopRound, EndRun, Refuse, Say>;

std::string to_line(const Up& up);
std::string to_line(const Down& down);

/// The longest message that a node sends. Its longest part is a rank's error file of at most 1 MiB, which may
/// take six times as much in JSON. libtorch's store accepts no more either.
inline constexpr std::size_t kLongestMessageBytes = 8 << 20;

/// Parses a message; nothing if the line is not one that a node sends, since strangers may write to the
/// store, too.
std::optional<Up> up_of(const std::string& line);
std::optional<Down> down_of(const std::string& line);

}  // namespace hookline
