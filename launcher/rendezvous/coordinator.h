// Which nodes form a run, and what becomes of it: pure decisions, without a store, processes or clocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/rendezvous/messages.h"
#include "launcher/rendezvous/succession.h"
#include "launcher/supervise/restart_decision.h"

namespace hookline {

struct NodeLimits {
  int least = 1, most = 1;  // that train
  bool is_alone() const { return most + spares == 1; }

  std::chrono::duration<double> join_timeout{300};  // for at least `least` nodes to join
  std::chrono::duration<double> last_call{5};       // to wait for extra nodes after the last one joined
  std::chrono::duration<double> node_timeout{5};    // without a heartbeat, until a node is lost
  int spares = 0;                                   // that may wait, if the number is fixed
};

struct Member {
  std::string node;  // its id
  std::string host;
  int first_rank = 0;
  int ranks = 1;
};

/// One start of all ranks: those of each member, in this order.
struct Round {
  int number = 0;
  std::int64_t restarts = 0;  // before it: failures and changes of membership
  std::vector<Member> members;
  int world_size = 0;
};

/// A message of the coordinator's.
struct Word {
  Down what;
  std::string to = {};  // the id of the node that it is for; empty: for all
};

/// Runs in the launcher of one node, where all nodes meet, and which is the first member of every round. If
/// that node is lost, the launcher of another may continue with a Coordinator of its own. A round ends when
/// all ranks succeed, when a rank fails, or when a node is lost. After a failure or a loss, the remaining
/// nodes and those that have joined meanwhile form the next round. Losing a node does not use up a restart.
/// Each call returns the messages to send, in order: at most about one for each node.
class Coordinator {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Words = std::vector<Word>;

  /// `own_id` and `own`: of the node it runs in. `taken`: if it takes the place of another.
  Coordinator(NodeLimits limits, RestartPolicy policy, std::string own_id, NodeHello own, Time now,
              const std::optional<TakenOver>& taken = {});

  Words take(const Up& up, Time now);
  /// Call it when `node` has sent no heartbeat for too long.
  Words lost(const std::string& node, Time now);
  /// Somebody was turned away before saying hello. `what` is a clause that says so, for people: if too few
  /// nodes join, the error has it as a possible reason.
  void turned_away(std::string what) { turned_away_ = std::move(what); }
  /// Call it when a node that was lost sends heartbeats again.
  Words back(const std::string& node);
  /// Call it at the time that next() returns.
  Words tick(Time now);
  Time next() const;

  /// The latest; its number is 0 before the first.
  const Round& round() const { return round_; }

 private:
  enum class Phase { gathering, waiting_to_restart, running, stopping, over };
  struct Node {
    NodeHello hello;
    std::int64_t order = 0;  // of coming
    Time since;
    std::string address = {};  // empty: unknown
  };

  Words hello(const Up& from, const NodeHello& hello, Time now);
  Words seated(const std::string& node, int round);
  /// All members of the round know of it.
  bool is_settled() const { return !round_.members.empty() && seated_.size() == round_.members.size(); }
  Words failed(const std::string& node, const NodeFailed& failed, Time now);
  Words pace_of(const std::string& node, const NodePace& pace);
  Words end_of(const std::string& node, const NodeEnd& end, Time now);
  /// "rank 3 on HOST exited with code 7"
  std::string failed_rank_text(const std::string& node, int rank, const std::string& how) const;
  Words gone(const std::string& node, const std::string& how, Time now);
  Words gather(Time now);
  Words start(const std::vector<std::string>& members);
  /// Those of the next round, in their order.
  std::vector<std::string> next_members() const;
  /// When to give up.
  Time gathers_until(bool may_continue) const;
  /// How long to wait if members of the last round are missing.
  std::chrono::duration<double> time_for_lost_members() const;
  /// True if these nodes may continue the run: no other part of it can then.
  bool may_continue(const std::vector<std::string>& members) const;
  /// The message that says how the run would continue without this node, addressed to `to`, or to all if that
  /// is empty; none if the run could not continue.
  Words succession(const std::string& to);
  Words succession_for(const std::string& newcomer);
  Words stop(const std::string& why);
  Words stopped(Time now);
  /// The reason to end the run, if this round, which lost a node, got no further than earlier rounds that
  /// lost one; else empty.
  std::string no_progress() const;
  Words finish(int exit_code, const std::string& why);
  /// For the log of the coordinator's node.
  Words say_here(const std::string& text) const { return {{Say{text}, own_id_}}; }
  Words finish_for_later() { return finish(kSavedForLater, kEndedForLaterText); }
  std::string refusal(const std::string& node, const NodeHello& hello) const;
  Words refuse(const std::string& node, const std::string& host, const std::string& why);
  Words refuse_surplus(Time now);
  /// While a run with a fixed number of nodes is complete: the nodes beyond its members and spares, and when
  /// each is to be refused. Until then it may replace a member that has just died.
  std::map<std::string, Time> surplus() const;
  std::string missing() const;
  /// Why may_continue(members) is false.
  std::string too_few_of_last(const std::vector<std::string>& members) const;
  std::string so_many() const;
  std::string members_text() const;
  bool is_static() const { return limits_.least == limits_.most; }

  NodeLimits limits_;
  RestartPolicy policy_;
  std::string own_id_;
  Phase phase_ = Phase::gathering;
  std::map<std::string, Node> nodes_;
  std::int64_t came_ = 0;
  Time gathering_since_, last_came_, restart_at_{};
  std::optional<TakenOver> taken_;  // until this coordinator starts its first round
  std::string launch_;
  Round round_;
  std::optional<Electorate> electorate_;   // of the last round that another node could continue from
  std::set<std::string> seated_;           // members that know of this round
  std::optional<StorePort> store_port_;    // of this round; told once it is settled
  std::set<std::string> running_;          // members whose part has not ended
  std::map<std::string, NodePace> paces_;  // of members, received since the last comparison
  std::optional<NodeFailed>
      failure_;  // the first of this round; if ranks are stuck, preferably one that others wait for
  std::string failed_node_, failure_text_;
  std::string turned_away_;      // the last one since a round started, and why: a clause; empty: nobody
  std::optional<Time> stop_at_;  // until then other nodes may say more of a run that is stuck
  bool member_lost_ = false;
  std::optional<std::int64_t> furthest_,
      furthest_before_;               // step of this round; of earlier ones that lost a node
  bool warned_ = false;               // a member, of a preemption
  std::vector<AttemptEnd> failures_;  // of the rounds so far
};

}  // namespace hookline
