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
  std::optional<int> last_round = {};         // that it was a member of
  std::string ranks_address = {};             // at which its ranks will listen, in digits; empty: unknown
};

/// MASTER_PORT of a round, at the coordinator's host: its store is open.
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

/// A node has its seat in a round, and no longer counts as a member of an earlier one (see Electorate).
struct Seated {
  int round = 0;
};

/// No rank of this node runs any more.
struct NodeEnd {
  int round = 0;
  std::optional<int> signal;  // the signal that stopped the node, if a user sent one
  bool warned = false;        // SIGUSR1 announced a preemption
  std::string report;         // how `failed_rank` failed, unless the node had been told to stop; for people
  std::optional<int> failed_rank = {};        // of the whole run
  std::optional<std::int64_t> step = {};      // of `failed_rank`: of its error file, or that it reported last
  std::optional<std::int64_t> furthest = {};  // the last step that any rank of this node reported
};

/// How busy this node's ranks were since its last NodePace.
struct NodePace {
  int round = 0;
  int rank = 0;     // the global rank of this node's busiest
  double busy = 0;  // the part of its time, from 0 to 1, in which that rank did not wait for communication
};

/// A node goes, and does not come back.
struct Leave {
  std::optional<int> signal;  // that somebody stopped it with, or that warned of a preemption
};

/// From a node to the coordinator. `node` is the sender's id.
struct Up {
  std::string node;
  std::variant<NodeHello, Seated, StorePort, NodeFailed, NodeEnd, NodePace, Leave> what;
  std::string address =
      {};  // of the sender's host, in digits, as seen from the coordinator's host; empty: unknown
};

/// A node's place in a round: its ranks are to be started.
struct Seat {
  int round = 0;
  std::int64_t restarts = 0;  // before it: failures and changes of membership
  int node = 0;               // its node rank
  int nodes = 1;
  int first_rank = 0;
  int world_size = 1;
  std::string launch;     // the id of this start of all launchers
  std::string main_host;  // the name of the coordinator's host
};

/// A node that may take the coordinator's place.
struct Successor {
  std::string node;  // its id
  std::string host;
  std::string address;  // of the host, in digits
};

inline constexpr int kMostFailuresTold = 1 << 20;

/// How the run continues if the coordinator's node is lost in this round, or before the next.
struct Succession {
  int round = 0;
  std::int64_t restarts = 0;  // before it
  int members = 1;            // nodes that are in it
  std::string host = {};      // the coordinator's
  std::string launch = {};
  int failures = 0;                             // of ranks, in the rounds so far
  std::optional<NodeFailed> last_failure = {};  // of them, if there is any
  std::optional<std::int64_t> furthest = {};    // step of the rounds that lost a node
  std::vector<Successor> successors = {};       // the first that is there takes the place
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

/// The node that this is sent to can't take part.
struct Refuse {
  std::string why;
};

/// The receiving node was counted as lost: it must stop its ranks and say hello again.
struct Rejoin {};

/// For people.
struct Say {
  std::string text;
  bool is_warning = false;
};

/// From the coordinator.
using Down = std::variant<Seat, StorePort, Succession, StopRound, EndRun, Refuse, Rejoin, Say>;

/// The line of a message to the coordinator does not name the sender: the connection identifies it.
std::string to_line(const Up& up);
std::string to_line(const Down& down);

/// More than the longest message has: a hello, or the coordinator's refusal of one. Both may hold the
/// program's arguments.
inline constexpr std::size_t kLongestMessageBytes = 8 << 20;

/// Parses a message of `node`; nothing if the line is not one that a node of this version sends.
std::optional<Up> up_of(const std::string& node, const std::string& line);
std::optional<Down> down_of(const std::string& line);

}  // namespace hookline
