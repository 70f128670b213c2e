#include "launcher/rendezvous/coordinator.h"

#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <utility>
#include <vector>

#include "base/text/address_text.h"
#include "base/text/count_text.h"
#include "base/text/duration_text.h"
#include "base/text/list_text.h"
#include "base/text/number_text.h"
#include "launcher/process/exit_code.h"
#include "launcher/rendezvous/slowest_node.h"

namespace hookline {
namespace {

/// Stall timeouts of several nodes end at nearly the same time, since each counts from the last step of its
/// own ranks.
constexpr std::chrono::seconds kTimeToSayMore{1};

void append(Coordinator::Words& words, Coordinator::Words more) {
  for (Word& word : more) words.push_back(std::move(word));
}

Coordinator::Time later(Coordinator::Time time, std::chrono::duration<double> by) {
  return time + std::chrono::duration_cast<std::chrono::steady_clock::duration>(by);
}

}  // namespace

Coordinator::Coordinator(NodeLimits limits, RestartPolicy policy, std::string own_id, NodeHello own, Time now,
                         const std::optional<TakenOver>& taken)
    : limits_(limits),
      policy_(policy),
      own_id_(std::move(own_id)),
      gathering_since_(now),
      last_came_(now),
      taken_(taken),
      launch_(taken ? taken->from.launch : own_id_) {
  nodes_[own_id_] = {std::move(own), came_++, now};
  if (!taken) return;
  const Succession& from = taken->from;
  round_.number = from.round;
  round_.restarts = from.restarts;
  furthest_before_ = from.furthest;
  failure_text_ = "the node " + from.host + " is lost";
  electorate_ = {from.round, static_cast<std::size_t>(from.members), {}, /*has_coordinator=*/false};
  if (nodes_.at(own_id_).hello.last_round == from.round) {
    electorate_->nodes.insert(own_id_);
    furthest_ = taken->furthest;
  }
  failures_.resize(static_cast<std::size_t>(from.failures));
  if (from.last_failure) {
    failures_.back().state.root_cause = RootCause{from.last_failure->rank, from.last_failure->outcome};
    failures_.back().step = from.last_failure->step;
  }
}

Coordinator::Words Coordinator::take(const Up& up, Time now) {
  if (phase_ == Phase::over) return {};
  if (const auto* said = std::get_if<NodeHello>(&up.what)) return hello(up, *said, now);
  if (!nodes_.contains(up.node)) return {};  // refused, or lost
  if (const auto* failure = std::get_if<NodeFailed>(&up.what)) return failed(up.node, *failure, now);
  if (const auto* end = std::get_if<NodeEnd>(&up.what)) return end_of(up.node, *end, now);
  if (const auto* pace = std::get_if<NodePace>(&up.what)) return pace_of(up.node, *pace);
  if (const auto* port = std::get_if<StorePort>(&up.what)) {
    if (port->round != round_.number || phase_ != Phase::running) return {};
    store_port_ = *port;
    return is_settled() ? Words{{*port}} : Words{};
  }
  if (const auto* seat = std::get_if<Seated>(&up.what)) return seated(up.node, seat->round);
  const std::optional<int> signal = std::get<Leave>(up.what).signal;
  const std::string who = "the node " + nodes_.at(up.node).hello.host;
  if (up.node == own_id_ && !signal)
    return finish(1, who + " has left the run, which can't continue without it");
  const bool runs_without_it = phase_ == Phase::running && !running_.contains(up.node);
  if (signal == SIGUSR1 && !runs_without_it) return finish_for_later();
  if (signal && !runs_without_it)
    return finish(128 + *signal, who + " was stopped by " + signal_name(*signal));
  // It will be in no other part of the run.
  if (electorate_) electorate_->size -= electorate_->nodes.erase(up.node);
  return gone(up.node, who + " has left the run", now);
}

Coordinator::Words Coordinator::seated(const std::string& node, int round) {
  if (round != round_.number || !seated_.insert(node).second || !is_settled()) return {};
  // From here on no node counts as a member of an earlier round. Until now no node had a succession for this
  // round, so even a node that had its seat in it could not continue without this coordinator.
  electorate_.reset();
  // The succession goes before the port, so that no other node starts ranks before it can continue without
  // this coordinator.
  Words words = succession("");
  if (store_port_) words.push_back({*store_port_});
  return words;
}

Coordinator::Words Coordinator::hello(const Up& from, const NodeHello& hello, Time now) {
  const std::string& node = from.node;
  if (const std::string why = refusal(node, hello); !why.empty()) return refuse(node, hello.host, why);
  nodes_[node] = {hello, came_++, now, from.address};
  last_came_ = now;
  if (taken_ && hello.last_round == taken_->from.round) electorate_->nodes.insert(node);
  if (phase_ == Phase::gathering) {
    Words words = gather(now);
    if (!words.empty()) return words;
    const Say joined{"the node " + hello.host + " joined: " + so_many()};
    words = {{joined, own_id_}, {joined, node}};
    append(words, succession_for(node));
    return words;
  }
  std::string how = "; it takes part when the ranks start again";
  if (surplus().contains(node))
    how = ": the run has its " + count_text(limits_.most, "node") +
          (limits_.spares > 0 ? " and " + count_text(limits_.spares, "spare") : "");
  else if (limits_.spares > 0 && phase_ == Phase::running)
    how = " as a spare, to take the place of a node that is lost";
  const Say waits{"the node " + hello.host + " waits" + how};
  // The succession goes first: a node that logs that it waits knows by then how to continue without this
  // coordinator, if that is possible.
  Words words = succession_for(node);
  append(words, {{waits, own_id_}, {waits, node}});
  return words;
}

std::map<std::string, Coordinator::Time> Coordinator::surplus() const {
  if (!is_static() || phase_ != Phase::running) return {};
  std::set<std::string> members;
  for (const Member& member : round_.members) members.insert(member.node);
  std::vector<std::pair<std::int64_t, std::string>> waiting;  // in the order of coming
  for (const auto& [id, node] : nodes_)
    if (members.erase(id) == 0) waiting.emplace_back(node.order, id);
  if (!members.empty()) return {};  // one is lost
  std::sort(waiting.begin(), waiting.end());
  std::map<std::string, Time> surplus;
  for (std::size_t i = static_cast<std::size_t>(limits_.spares); i < waiting.size(); ++i)
    surplus[waiting[i].second] = later(nodes_.at(waiting[i].second).since, limits_.node_timeout);
  return surplus;
}

Coordinator::Words Coordinator::refuse_surplus(Time now) {
  Words words;
  for (const auto& [id, until] : surplus()) {
    if (now < until) continue;
    const std::string host = nodes_.at(id).hello.host;
    nodes_.erase(id);
    append(words, refuse(id, host,
                         "it is one too many: the run has its " + count_text(limits_.most, "node") +
                             " already, " + members_text()));
  }
  return words;
}

Coordinator::Words Coordinator::refuse(const std::string& node, const std::string& host,
                                       const std::string& why) {
  turned_away_ = "the node " + host + " was refused: " + why;
  return {{Refuse{why}, node}, {Say{turned_away_, /*is_warning=*/true}, own_id_}};
}

std::string Coordinator::members_text() const {
  std::vector<std::string> hosts;
  for (const auto& member : round_.members) hosts.push_back(member.host);
  return list_text(hosts);
}

std::string Coordinator::refusal(const std::string& node, const NodeHello& hello) const {
  const NodeHello& own = nodes_.at(own_id_).hello;
  std::string differences;
  for (const auto& [key, value] : own.common) {
    const auto there = hello.common.find(key);
    if (there == hello.common.end() || there->second != value)
      differences += "\n  " + key + " is " + value + " on " + own.host + " and " +
                     (there == hello.common.end() ? "unknown" : there->second) + " on " + hello.host;
  }
  if (!differences.empty()) return "it differs where all nodes must agree:" + differences;
  // The nodes admitted so far all have the same address family.
  const auto known = std::find_if(nodes_.begin(), nodes_.end(),
                                  [](const auto& each) { return !each.second.hello.ranks_address.empty(); });
  if (const std::string& here = hello.ranks_address; !here.empty() && known != nodes_.end()) {
    const NodeHello& there = known->second.hello;
    if (is_address(here, AF_INET) != is_address(there.ranks_address, AF_INET))
      return "its ranks have the address " + here + ", and those of the node " + there.host + " have " +
             there.ranks_address +
             ", so they can't connect to each other: set [rendezvous] main_address to an address in digits, "
             "or to a name that stands for the same address family (IPv4 or IPv6) on every host";
  }
  if (!hello.node_rank) return "";
  if (const int most = limits_.most + limits_.spares; *hello.node_rank >= most)
    return "node_rank is " + std::to_string(*hello.node_rank) + ", and there are " +
           count_text(most, "node") + ": it must be less";
  for (const auto& [id, other] : nodes_) {
    if (id != node && other.hello.node_rank == hello.node_rank)
      return "node_rank " + std::to_string(*hello.node_rank) + " is taken by " + other.hello.host +
             ": each node needs one of its own";
  }
  return "";
}

/// "2 of 3 nodes".
std::string Coordinator::so_many() const {
  const std::size_t here = std::min(nodes_.size(), static_cast<std::size_t>(limits_.most));
  return std::to_string(here) + " of " + count_text(limits_.most, "node");
}

Coordinator::Words Coordinator::gather(Time now) {
  // Very many nodes may join in quick succession, so each one must be cheap.
  const bool is_full = nodes_.size() >= static_cast<std::size_t>(limits_.most);
  if (!is_full && now < later(last_came_, limits_.last_call) &&
      now < later(gathering_since_, time_for_lost_members()))
    return {};
  const std::vector<std::string> members = next_members();
  const bool may = may_continue(members);
  if (may && members.size() >= static_cast<std::size_t>(limits_.least)) {
    if (members.size() < static_cast<std::size_t>(limits_.most) && now < later(last_came_, limits_.last_call))
      return {};
    if (const std::string why = taken_ ? no_progress() : ""; !why.empty()) return finish(kNoProgress, why);
    return start(members);
  }
  if (now < gathers_until(may)) return {};
  return finish(1, may ? missing() : too_few_of_last(members));
}

Coordinator::Time Coordinator::gathers_until(bool may_continue) const {
  return later(gathering_since_, taken_ || !may_continue ? time_for_lost_members() : limits_.join_timeout);
}

std::chrono::duration<double> Coordinator::time_for_lost_members() const {
  // Lost members can come back only as long as they still try to reach this node. After that they have joined
  // another part of the run, or have exited, and newcomers do not count in their place.
  return taken_ ? taken_->patience : std::min(limits_.join_timeout, 3 * limits_.node_timeout);
}

bool Coordinator::may_continue(const std::vector<std::string>& members) const {
  return !electorate_ || electorate_->allows({members.begin(), members.end()});
}

std::string Coordinator::too_few_of_last(const std::vector<std::string>& members) const {
  const std::size_t here = electorate_->count_in({members.begin(), members.end()});
  return std::to_string(here) + " of the " + count_text(electorate_->size, "node") + " of the last attempt " +
         (here == 1 ? "is" : "are") +
         " there, too few to continue: the others may have continued the run; see their logs, or launch "
         "again";
}

Coordinator::Words Coordinator::succession_for(const std::string& newcomer) {
  // The newcomer may be the node that makes a succession possible: then all nodes must learn of it.
  const bool is_told = electorate_ && electorate_->round == round_.number;
  return succession(is_told ? newcomer : "");
}

Coordinator::Words Coordinator::succession(const std::string& to) {
  // With a quorum, no two runs can both have `least` nodes, even if launchers are started anew at
  // main_address, as long as no more than `most` + `spares` launchers run at a time.
  const bool is_quorum = 2 * limits_.least > limits_.most + limits_.spares;
  const bool can_lose_a_node = !is_static() || limits_.spares > 0;
  if (!is_quorum || !can_lose_a_node || !is_settled() ||
      nodes_.size() <= static_cast<std::size_t>(limits_.least))
    return {};
  constexpr std::size_t kMostSuccessors = 3;
  Succession succession{round_.number, round_.restarts, static_cast<int>(round_.members.size()),
                        nodes_.at(own_id_).hello.host, launch_};
  succession.failures = static_cast<int>(std::min(failures_.size(), std::size_t{kMostFailuresTold}));
  if (!failures_.empty()) {
    const RootCause& cause = *failures_.back().state.root_cause;
    succession.last_failure = NodeFailed{round_.number, cause.rank, cause.outcome, failures_.back().step};
  }
  succession.furthest = furthest_before_;
  for (const Member& member : round_.members) {
    const auto node = nodes_.find(member.node);
    if (member.node == own_id_ || node == nodes_.end() || node->second.address.empty()) continue;
    succession.successors.push_back({member.node, member.host, node->second.address});
    if (succession.successors.size() == kMostSuccessors) break;
  }
  if (succession.successors.empty()) return {};
  electorate_ = {round_.number, round_.members.size(), {}};
  for (const Member& member : round_.members) electorate_->nodes.insert(member.node);
  return {{std::move(succession), to}};
}

std::string Coordinator::missing() const {
  std::string text = std::to_string(nodes_.size()) + " of " + count_text(limits_.least, "node") +
                     (nodes_.size() == 1 ? " is" : " are") + " there after " +
                     seconds_text(taken_ ? taken_->patience : limits_.join_timeout);
  if (taken_) return text + ", too few to continue";
  std::string absent;
  for (int rank = 0; is_static() && rank < limits_.most; ++rank) {
    const bool there = std::any_of(nodes_.begin(), nodes_.end(),
                                   [&](const auto& node) { return node.second.hello.node_rank == rank; });
    if (!there) absent += (absent.empty() ? "" : ", ") + std::to_string(rank);
  }
  const bool all_ranked = std::all_of(
      nodes_.begin(), nodes_.end(), [](const auto& node) { return node.second.hello.node_rank.has_value(); });
  if (all_ranked && !absent.empty()) text += "; missing: node_rank " + absent;
  text +=
      "; start the same command on each, with the same main_address and main_port, or set [launch] "
      "join_timeout_seconds";
  return turned_away_.empty() ? text : text + "; " + turned_away_;
}

std::vector<std::string> Coordinator::next_members() const {
  const auto sort_by = [this](std::vector<std::string>& ids, bool newcomers_last) {
    std::sort(ids.begin(), ids.end(), [&](const std::string& a, const std::string& b) {
      const auto place = [&](const std::string& id) {
        const Node& node = nodes_.at(id);
        const bool is_last = newcomers_last && electorate_ && !electorate_->nodes.contains(id);
        const int rank = node.hello.node_rank.value_or(id == own_id_ ? 0 : limits_.most);
        return std::tuple(id != own_id_, is_last, rank, node.order);
      };
      return place(a) < place(b);
    });
  };
  std::vector<std::string> members;
  for (const auto& [id, node] : nodes_) members.push_back(id);
  if (members.size() > static_cast<std::size_t>(limits_.most)) {
    sort_by(members, /*newcomers_last=*/true);
    members.resize(static_cast<std::size_t>(limits_.most));
  }
  sort_by(members, /*newcomers_last=*/false);
  return members;
}

Coordinator::Words Coordinator::start(const std::vector<std::string>& members) {
  const std::int64_t restarts = round_.number == 0 ? 0 : round_.restarts + 1;
  // The number must be new to every node: one may know of a round that this coordinator has not heard of.
  int last = round_.number;
  for (const auto& [id, node] : nodes_) last = std::max(last, node.hello.last_round.value_or(0));
  round_ = {last + 1, restarts, {}, 0};
  running_.clear();
  paces_.clear();
  for (const std::string& id : members) {
    const NodeHello& hello = nodes_.at(id).hello;
    round_.members.push_back({id, hello.host, round_.world_size, hello.ranks});
    round_.world_size += hello.ranks;
    running_.insert(id);
  }
  failure_.reset();
  stop_at_.reset();
  turned_away_.clear();
  member_lost_ = warned_ = false;
  if (std::exchange(taken_, std::nullopt)) furthest_before_ = std::max(furthest_before_, furthest_);
  furthest_.reset();
  phase_ = Phase::running;
  seated_.clear();
  store_port_.reset();
  Words words;
  for (std::size_t i = 0; i < round_.members.size(); ++i) {
    const Member& member = round_.members[i];
    words.push_back(
        {Seat{round_.number, round_.restarts, static_cast<int>(i), static_cast<int>(round_.members.size()),
              member.first_rank, round_.world_size, launch_, nodes_.at(own_id_).hello.host},
         member.node});
  }
  return words;
}

std::string Coordinator::failed_rank_text(const std::string& node, int rank, const std::string& how) const {
  const std::string where = limits_.is_alone() ? "" : " on " + nodes_.at(node).hello.host;
  return "rank " + std::to_string(rank) + where + " " + how;
}

Coordinator::Words Coordinator::failed(const std::string& node, const NodeFailed& failed, Time now) {
  if (failed.round != round_.number || phase_ != Phase::running) return {};
  const auto* stuck = std::get_if<Stuck>(&failed.outcome);
  // Every node detects by itself that a run is stuck. A node whose ranks all wait knows only that the cause
  // is elsewhere.
  if (stop_at_ && !(stuck && !stuck->was_waiting && std::get<Stuck>(failure_->outcome).was_waiting))
    return {};
  failure_ = failed;
  failed_node_ = node;
  failure_text_ = failed_rank_text(node, failed.rank, describe(failed.outcome));
  if (!stuck) return stop(failure_text_);
  if (!stop_at_) stop_at_ = later(now, kTimeToSayMore);
  return {};
}

Coordinator::Words Coordinator::pace_of(const std::string& node, const NodePace& pace) {
  if (pace.round != round_.number || phase_ != Phase::running || !running_.contains(node)) return {};
  paces_[node] = pace;
  if (paces_.size() < round_.members.size()) return {};
  const auto slowest = slowest_node(std::exchange(paces_, {}));
  if (!slowest) return {};
  const Say slow{"the node " + nodes_.at(slowest->node).hello.host + " is the slowest: the others wait " +
                     rounded(100 * slowest->share, 2) + " % of the time for it, mostly for its rank " +
                     std::to_string(slowest->rank),
                 /*is_warning=*/true};
  Words words{{slow, own_id_}};
  if (slowest->node != own_id_) words.push_back({slow, slowest->node});
  return words;
}

Coordinator::Words Coordinator::end_of(const std::string& node, const NodeEnd& end, Time now) {
  if (end.round != round_.number || running_.erase(node) == 0) return {};
  paces_.erase(node);
  if (end.signal)
    return finish(128 + *end.signal, limits_.is_alone() ? ""  // the node has logged it itself
                                                        : "the node " + nodes_.at(node).hello.host +
                                                              " was stopped by " + signal_name(*end.signal));
  warned_ |= end.warned;
  furthest_ = std::max(furthest_, end.furthest);
  if (failure_ && node == failed_node_ && end.failed_rank == failure_->rank) {
    if (end.step) failure_->step = end.step;
    failure_text_ = failed_rank_text(node, failure_->rank, end.report);
  }
  Words words;
  // Every node gets the report of the first failure; a later one is shown where it was.
  if (end.failed_rank && !(failure_ && node == failed_node_ && end.failed_rank == failure_->rank))
    words.push_back({Say{failed_rank_text(node, *end.failed_rank, end.report), /*is_warning=*/true}, node});
  if (running_.empty()) append(words, stopped(now));
  return words;
}

Coordinator::Words Coordinator::lost(const std::string& node, Time now) {
  if (phase_ == Phase::over || !nodes_.contains(node)) return {};
  return gone(node, "the node " + nodes_.at(node).hello.host + " is lost: it sends no heartbeat", now);
}

Coordinator::Words Coordinator::back(const std::string& node) {
  if (phase_ == Phase::over || nodes_.contains(node)) return {};
  return {{Rejoin{}, node}};
}

Coordinator::Words Coordinator::gone(const std::string& node, const std::string& how, Time now) {
  nodes_.erase(node);
  const bool was_running = running_.erase(node) != 0;
  if (!was_running) return say_here(how);
  // If other ranks have failed, even before the loss was noticed, that is a consequence of it.
  Words words;
  if (!member_lost_) failure_text_ = how;
  member_lost_ = true;
  failure_.reset();
  if (phase_ == Phase::running) append(words, stop(how));
  if (running_.empty()) append(words, stopped(now));
  return words;
}

Coordinator::Words Coordinator::stop(const std::string& why) {
  phase_ = Phase::stopping;
  stop_at_.reset();
  return {{StopRound{round_.number, why}}};
}

/// The ranks of all members have ended.
Coordinator::Words Coordinator::stopped(Time now) {
  stop_at_.reset();
  if (member_lost_) {
    const bool has_spare = limits_.spares > 0 && nodes_.size() >= static_cast<std::size_t>(limits_.most);
    if (is_static() && policy_.max_restarts == 0 && !has_spare) return finish(1, failure_text_);
    if (warned_ && policy_.keeps_checkpoints) return finish_for_later();
    if (const std::string why = no_progress(); !why.empty()) return finish(kNoProgress, why);
    furthest_before_ = std::max(furthest_before_, furthest_);
    phase_ = Phase::gathering;
    gathering_since_ = last_came_ = now;
    const bool is_part = !may_continue(next_members());
    Words words{{Say{"forming the run again: " + so_many() +
                     (is_part ? ", too few of the last attempt to continue without the others" : "") +
                     (failure_text_.empty() ? "" : "; " + failure_text_)}}};
    append(words, gather(now));
    return words;
  }
  if (!failure_) return finish(0, "");
  RunState state;
  state.root_cause = RootCause{failure_->rank, failure_->outcome};
  state.warned = warned_;
  failures_.push_back({state, failure_->step});
  const NextAttempt next = next_attempt(policy_, failures_);
  if (const auto* restart = std::get_if<RestartAfter>(&next)) {
    phase_ = Phase::waiting_to_restart;
    restart_at_ = later(now, restart->delay);
    return {{Say{failure_text_, /*is_warning=*/true}},
            {Say{"restarting all ranks in " + seconds_text(restart->delay) + " (restart " +
                 std::to_string(failures_.size()) + " of " + std::to_string(policy_.max_restarts) + ")"}}};
  }
  Words words;
  if (std::holds_alternative<EndForLater>(next)) {
    words.push_back({Say{failure_text_, /*is_warning=*/true}});
    append(words, finish_for_later());
    return words;
  }
  if (const auto* end = std::get_if<GiveUp>(&next); end && !end->reason.empty())
    words.push_back({Say{"no restart: " + end->reason}});
  append(words, finish(exit_code(failure_->outcome),
                       saved_for_later(policy_, failure_->outcome) ? kSavedForLaterText : failure_text_));
  return words;
}

std::string Coordinator::no_progress() const {
  if (policy_.always || !furthest_before_ || furthest_ > furthest_before_) return "";
  return failure_text_ + "; in this attempt the ranks got no further than step " +
         std::to_string(*furthest_before_) +
         ", which they had reached before, so the run ends (restart = \"always\" continues)";
}

Coordinator::Words Coordinator::finish(int exit_code, const std::string& why) {
  phase_ = Phase::over;
  return {{EndRun{exit_code, why}}};
}

Coordinator::Words Coordinator::tick(Time now) {
  if (phase_ == Phase::gathering) return gather(now);
  if (phase_ == Phase::running && stop_at_ && now >= *stop_at_) return stop(failure_text_);
  if (phase_ == Phase::running) return refuse_surplus(now);
  if (phase_ != Phase::waiting_to_restart || now < restart_at_) return {};
  phase_ = Phase::gathering;
  gathering_since_ = last_came_ = now;
  return gather(now);
}

Coordinator::Time Coordinator::next() const {
  if (phase_ == Phase::waiting_to_restart) return restart_at_;
  if (phase_ == Phase::running && stop_at_) return *stop_at_;
  if (phase_ == Phase::running) {
    Time first = Time::max();
    for (const auto& [id, until] : surplus()) first = std::min(first, until);
    return first;
  }
  if (phase_ != Phase::gathering) return Time::max();
  const bool may = !electorate_ || may_continue(next_members());
  return may && nodes_.size() >= static_cast<std::size_t>(limits_.least)
             ? later(last_came_, limits_.last_call)
             : gathers_until(may);
}

}  // namespace hookline
