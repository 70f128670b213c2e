#include "launcher/rendezvous/run_nodes.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <sstream>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text/address_text.h"
#include "base/text/count_text.h"
#include "base/text/list_text.h"
#include "base/text/printable.h"
#include "launcher/process/outcome.h"
#include "launcher/process/own_address.h"
#include "launcher/rank/rank_sockets.h"
#include "launcher/rendezvous/handover.h"
#include "launcher/supervise/failure_report.h"

namespace hookline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeToTell{5};  // for the others to learn of the end
constexpr std::size_t kMostHostsNamed = 16;

class NodeRun {
 public:
  NodeRun(const NodeSetup& setup, NodeLink& link, Signals& signals, const MakeNodeJob& make_job)
      : setup_(setup),
        meeting_(setup.meeting),
        hello_(setup.hello),
        link_(link),
        signals_(signals),
        make_job_(make_job) {}

  int run() {
    try {
      while (!exit_code_) {
        if (due_) {
          run_round();
        } else {
          wait();
        }
      }
    } catch (...) {
      leave({});
      link_.finish(kTimeToTell);
      throw;
    }
    link_.finish(kTimeToTell);
    return *exit_code_;
  }

 private:
  std::string place() const {
    return host_and_port(meeting_.address, meeting_.port) + " (run id '" + meeting_.run_id + "')";
  }

  std::string who_may_join() const {
    const RunSecret& secret = meeting_.secret;
    return secret.kind == RunSecret::Kind::user ? "; they need " + secret.ticket() : "";
  }

  StoreReach reach_of_store() const {
    if (is_alone()) return StoreReach::this_host;
    return is_address(meeting_.address, AF_INET) ? StoreReach::ipv4 : StoreReach::any;
  }

  bool is_alone() const { return setup_.limits.is_alone(); }

  /// Has this node's launcher been killed? If so, ends this node's part without a word to the others: to
  /// them the node is lost, as if its host had died. Its relay ends with the launcher, or a moment later.
  bool is_killed() {
    if (is_alone() || !signals_.is_launcher_gone()) return false;
    exit_code_ = 128 + SIGKILL;
    return true;
  }

  /// To the coordinator, which may be here.
  void say(decltype(Up::what) what) {
    Up up{meeting_.node, std::move(what)};
    if (coordinator_)
      own_ups_.push_back(std::move(up));
    else
      link_.send_up(to_line(up));
  }

  /// Tells the others that this node leaves, without waiting to hear what that means for this node.
  void leave(std::optional<int> signal) {
    if (coordinator_)
      tell(coordinator_->take({meeting_.node, Leave{signal}}, Clock::now()));
    else
      say(Leave{signal});
  }

  void tell(const Coordinator::Words& words) {
    for (const Word& word : words) {
      const bool is_own = word.to == meeting_.node;
      if (is_own || word.to.empty()) own_words_.push_back(word.what);
      if (!is_own && !is_alone()) link_.send_down(word.to, to_line(word.what));
    }
  }

  void wait() {
    int patience_ms = 1000;
    take_words();
    if (due_ || exit_code_) return;
    if (coordinator_) {
      const auto now = Clock::now();
      tell(coordinator_->tick(now));
      take_words();
      if (due_ || exit_code_) return;
      const auto left = coordinator_->next() - now;
      if (left < std::chrono::milliseconds(patience_ms))
        patience_ms = static_cast<int>(
            std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    }
    std::vector<pollfd> descriptors = {{link_.descriptor(), POLLIN, 0}};
    for (const int descriptor : signals_.descriptors()) descriptors.push_back({descriptor, POLLIN, 0});
    poll(descriptors.data(), descriptors.size(), patience_ms);
    take_words();
    const auto signal = signals_.asked_to_end(setup_.policy.keeps_checkpoints);
    if (!signal || is_killed()) return;
    const bool warned = signal == SIGUSR1;
    // The others may run, and continue without this node.
    if (is_alone())
      log::info(warned ? kEndedForLaterText
                       : "stopped by " + signal_name(*signal) + " while no ranks were running");
    else
      log::info("this node leaves the run on " + signal_name(*signal) + ", while it runs no ranks");
    leave(signal);
    exit_code_ = warned ? kSavedForLater : 128 + *signal;
  }

  void run_round() {
    const Seat seat = *seat_;
    NodePlace place;
    place.node = seat.node;
    place.nodes = seat.nodes;
    place.first_rank = seat.first_rank;
    place.world_size = seat.world_size;
    place.main_address = meeting_.address;
    place.run_id = meeting_.run_id;
    place.launch_id = seat.launch;
    place.store_name = store_name_;
    place.interface = interface_towards(store_address_);
    place.has_agent_store = setup_.has_agent_store;
    // The store for scripts and Python accepts only connections from addresses that nodes have joined from,
    // so ranks must connect by the same route. And a loopback address would lead no other host to this one.
    if (place.has_agent_store || (!is_alone() && is_name_of_loopback(meeting_.address)))
      place.main_address = store_address_;
    StoreSocket store = std::move(store_);
    store.port = store_port_;
    due_ = false;
    stop_wanted_ = false;
    if (!is_alone())
      log::info(count_text(seat.world_size, "rank") + " on " + count_text(seat.nodes, "node") + ": " +
                who_runs(seat));
    JobSpec job = make_job_(place, seat.restarts, std::move(store));
    job.first_rank = seat.first_rank;
    if (!is_alone()) {  // else nothing but its own ranks can end the round
      job.stop_source.descriptor = [this] { return link_.descriptor(); };
      job.stop_source.read = [this] {
        take_words();
        if (coordinator_) tell(coordinator_->tick(Clock::now()));
        hear_own();
        return std::exchange(stop_wanted_, false);
      };
      if (coordinator_) job.stop_source.next = [this] { return coordinator_->next(); };
    }
    job.stop_source.failed = [this, &seat](int rank, const Outcome& outcome,
                                           std::optional<std::int64_t> step) {
      has_failed_ = true;
      say(NodeFailed{seat.round, rank, outcome, step});
      if (!is_alone()) hear_own();  // the others learn of it now
    };
    if (!is_alone())
      job.stop_source.busiest = [this, &seat](int rank, double busy) {
        say(NodePace{seat.round, rank, busy});
      };
    running_ = has_taken_part_ = true;
    was_told_to_stop_ = has_failed_ = false;
    unanswered_report_.clear();
    Supervisor supervisor(std::move(job), signals_);
    const RunResult result = supervisor.run();
    running_ = false;
    if (is_killed()) return;
    is_explained_ = result.is_explained;
    furthest_ = result.furthest;
    NodeEnd end{seat.round, {}, result.state.warned, "", {}, {}, result.furthest};
    if (result.failure && !saved_for_later(setup_.policy, result.failure->cause.outcome)) {
      // The coordinator reports the first failure of all to every node.
      if (was_told_to_stop_ || lost_others_ || handover_ || after_ranks_ != AfterRanks::nothing) {
        log::warning(failure_report(*result.failure));
      } else {
        if (has_failed_) unanswered_report_ = failure_report(*result.failure);
        end.report = failure_details(*result.failure);
        if (!is_alone()) end.report = shortened_report(end.report);  // every node gets it
        end.failed_rank = result.failure->cause.rank;
        const auto& error = result.failure->error;
        end.step = error && error->step ? error->step : result.step;
      }
    }
    if (result.asked_by) {
      end.signal = result.asked_by;
      log::info("stopped by " + signal_name(*end.signal));
    }
    if (handover_ && !exit_code_) {
      const bool is_preempted = result.state.warned && setup_.policy.keeps_checkpoints;
      if (is_preempted) log::info(kEndedForLaterText);
      if (end.signal || is_preempted) exit_code_ = is_preempted ? kSavedForLater : 128 + *end.signal;
    } else if (!exit_code_) {
      say(end);  // once there is an exit code, the run has ended and needs no report
    }
    if (lost_others_) give_up();
    const AfterRanks next = std::exchange(after_ranks_, AfterRanks::nothing);
    if (exit_code_) return;
    if (next == AfterRanks::say_hello) say(hello_);
    if (next == AfterRanks::take_over) take_over();
  }

  /// At the coordinator's node "box1 (2) and box2 (2)"; at another one "this is node 1, with ranks 2 to 3".
  std::string who_runs(const Seat& seat) const {
    if (coordinator_) {
      std::vector<std::string> nodes;
      for (const Member& member : coordinator_->round().members)
        nodes.push_back(member.host + " (" + std::to_string(member.ranks) + ")");
      return list_text(nodes, kMostHostsNamed);
    }
    const std::string first = std::to_string(seat.first_rank),
                      last = std::to_string(seat.first_rank + hello_.ranks - 1);
    return "this is node " + std::to_string(seat.node) + ", with " +
           (first == last ? "rank " + first : "ranks " + first + " to " + last);
  }

  void take_words() {
    hear_own();
    while (const auto word = link_.next()) {
      take(*word);
      hear_own();
    }
  }

  /// What this node says to itself, as long as there is something.
  void hear_own() {
    while (!own_ups_.empty() || !own_words_.empty()) {
      if (!own_words_.empty()) {
        const Down word = std::move(own_words_.front());
        own_words_.pop_front();
        std::visit([this](const auto& said) { hear(said); }, word);
      } else {
        const Up up = std::move(own_ups_.front());
        own_ups_.pop_front();
        tell(coordinator_->take(up, Clock::now()));
      }
    }
  }

  void take(const LinkWord& word) {
    // This node becomes the coordinator's node once its ranks have stopped.
    if (after_ranks_ == AfterRanks::take_over &&
        (word.kind == LinkWord::Kind::up || word.kind == LinkWord::Kind::lost ||
         word.kind == LinkWord::Kind::back)) {
      early_words_.push_back(word);
      return;
    }
    switch (word.kind) {
      case LinkWord::Kind::serves:
        has_joined_ = true;
        begin(/*serves=*/word.text == "yes");
        break;
      case LinkWord::Kind::up:
        if (!coordinator_) break;
        if (auto up = up_of(word.node, word.text)) {
          up->address = word.address;
          tell(coordinator_->take(*up, Clock::now()));
        } else {
          ignore(word.text);
        }
        break;
      case LinkWord::Kind::lost:
        if (coordinator_) tell(coordinator_->lost(word.node, Clock::now()));
        break;
      case LinkWord::Kind::back:
        if (coordinator_) tell(coordinator_->back(word.node));
        break;
      case LinkWord::Kind::store:
        hear_of_store(word.text);
        break;
      case LinkWord::Kind::stranger:
        turn_away(word.text);
        break;
      case LinkWord::Kind::warning:
        log::warning(word.text);
        break;
      case LinkWord::Kind::down:
        if (const auto down = down_of(word.text))
          std::visit([this](const auto& said) { hear(said); }, *down);
        else
          ignore(word.text);
        break;
      case LinkWord::Kind::broken:
        if (is_killed()) return;  // node_relay ends with the launcher
        [[fallthrough]];
      case LinkWord::Kind::unusable:
        if (handover_ && !has_joined_ && word.kind == LinkWord::Kind::unusable)
          return go_to_next_successor(word.text);
        if (!has_joined_ && !handover_) return refuse(word.text, word.kind == LinkWord::Kind::broken ? 1 : 2);
        lose_others("this node can't continue in the run: " + word.text,
                    "it can't reach the other nodes any more");
        break;
      case LinkWord::Kind::gone:
        if (handover_ && !has_joined_) return go_to_next_successor(word.text);
        if (!has_joined_) return refuse(word.text, 1);
        lose_coordinator(word.text);
        break;
    }
  }

  void begin(bool serves) {
    if (handover_) {
      // This node's ranks must have ended before it takes part again.
      if (running_)
        after_ranks_ = serves ? AfterRanks::take_over : AfterRanks::say_hello;
      else if (serves)
        take_over();
      else
        say(hello_);
      return;
    }
    if (!is_alone() && meeting_.secret.kind == RunSecret::Kind::none)
      log::warning("[rendezvous] insecure = true: anybody who reaches " + place() +
                   " can join this run, read what the nodes tell each other, and end it");
    if (serves) {
      coordinator_.emplace(setup_.limits, setup_.policy, meeting_.node, hello_, Clock::now());
      if (setup_.limits.least > 1) log::info("waiting for other nodes at " + place() + who_may_join());
    } else {
      say(hello_);
    }
  }

  /// A connection from a host, whose address is empty if it is not known, was refused.
  void turn_away(const std::string& address) {
    constexpr int kMostWarnings = 8;
    const std::string what = "a connection " + (address.empty() ? "" : "from " + address + " ") + "to " +
                             host_and_port(meeting_.address, meeting_.port) +
                             " was refused: a node needs the same main_address and main_port, and " +
                             meeting_.secret.ticket();
    if (coordinator_) coordinator_->turned_away(what);
    if (++strangers_ > kMostWarnings) return;
    const bool is_last = strangers_ == kMostWarnings;
    log::warning(what + (is_last ? "; those from further addresses are refused without a warning" : ""));
  }

  void lose_coordinator(const std::string& how) {
    if (exit_code_ || lost_others_) return;
    if (!unanswered_report_.empty()) log::warning(std::exchange(unanswered_report_, ""));
    const std::string name = main_host_.empty() ? "" : " (" + main_host_ + ")";
    const auto is_gone = [&](const std::string& place) {
      return "the node at " + place + name + ", which the others meet at, is gone";
    };
    const std::string why_stop = is_gone(meeting_.address);
    const std::string gone = is_gone(host_and_port(meeting_.address, meeting_.port)) + " (" + how + ")";
    if (!handover_ && !succession_)
      return lose_others(gone + ": the run can't continue without it", why_stop);
    if (!handover_) handover_.emplace(*succession_, gone);
    handover_->lose(Clock::now());
    has_joined_ = due_ = false;
    seat_.reset();
    after_ranks_ = AfterRanks::nothing;
    want_stop(why_stop);
    go_to_next_successor(how);
  }

  /// `how`: why the previous meeting place can't be used.
  void go_to_next_successor(const std::string& how) {
    const std::string obstacle = handover_->obstacle(meeting_, how);
    if (!obstacle.empty()) log::warning(obstacle);
    const auto turn = handover_->turn(meeting_, Clock::now());
    if (!turn) return lose_others(handover_->why_none(), "no node takes the place of that one");
    log::warning(*turn);
    main_host_.clear();
    link_.meet(meeting_);
  }

  void take_over() {
    coordinator_.emplace(
        setup_.limits, setup_.policy, meeting_.node, hello_, Clock::now(),
        TakenOver{handover_->from(), furthest_, Handover::time_for_one(meeting_) + setup_.grace});
    handover_.reset();
    for (const LinkWord& word : std::exchange(early_words_, {})) take(word);
  }

  /// `why`: the error that the run ends with.
  void lose_others(const std::string& why, const std::string& why_stop) {
    if (exit_code_ || lost_others_) return;
    lost_others_ = why;
    want_stop(why_stop);
    if (!running_) give_up();
  }

  /// Logs only the first such message.
  void ignore(const std::string& message) {
    constexpr std::size_t kShownBytes = 80;
    if (std::exchange(is_ignoring_, true)) return;
    log::warning("a message at " + place() +
                 " is not from this version of hookline; ignoring this and all further such messages: '" +
                 printable(message.substr(0, kShownBytes)) + (message.size() > kShownBytes ? " …'" : "'"));
  }

  void give_up() {
    exit_code_ = 1;
    log::error(*lost_others_);
  }

  void refuse(const std::string& why, int code) {
    if (exit_code_) return;
    log::error("this node can't take part in the run: " + why);
    exit_code_ = code;
  }

  void want_stop(const std::string& why) {
    if (!running_ || was_told_to_stop_ || has_failed_) return;
    log::warning("stopping this node's ranks: " + why);
    stop_wanted_ = was_told_to_stop_ = true;
  }

  void hear(const Seat& seat) {
    seat_ = seat;
    main_host_ = seat.main_host;
    hello_.last_round = seat.round;
    say(Seated{seat.round});
    handover_.reset();
    succession_.reset();
    furthest_.reset();
    unanswered_report_.clear();
    store_name_.clear();
    store_port_ = 0;
    if (seat.node == 0 && !setup_.has_agent_store) {
      store_ = bind_store_socket(reach_of_store());
      store_port_ = store_.port;
    }
    // The other nodes' ranks start once they get the port, and so after the store is there.
    if (is_alone() && !setup_.has_agent_store)
      due_ = true;
    else if (seat.node == 0)
      link_.open_store(seat.round, /*over_tcp=*/setup_.has_agent_store);
  }

  void hear(const Succession& succession) {
    succession_ = succession;
    main_host_ = succession.host;  // a node that waits for a place has no seat
    handover_.reset();
  }

  void hear(const StorePort& port) {
    if (!seat_ || port.round != seat_->round || seat_->node == 0) return;
    store_port_ = port.port;
    link_.open_store(port.round, /*over_tcp=*/false);
  }

  /// "ROUND NAME PORT ADDRESS": the node_relay has opened the store for this node's ranks.
  void hear_of_store(const std::string& text) {
    std::istringstream words(text);
    int round = 0, port = 0;
    std::string name, address;
    if (!(words >> round >> name >> port >> address) || !seat_ || seat_->round != round) return;
    store_name_ = name;
    store_address_ = address;
    if (port != 0) store_port_ = port;
    if (seat_->node == 0 && !is_alone()) say(StorePort{round, store_port_});
    due_ = true;
  }

  void hear(const StopRound& stop) {
    if (!seat_ || stop.round != seat_->round) return;
    want_stop(stop.why);
    if (running_) return;
    due_ = false;
    say(NodeEnd{seat_->round, {}, false, "", {}});  // a second one does no harm
    seat_.reset();
  }

  void hear(const Rejoin&) {
    want_stop("the others have not heard from this node for too long");
    due_ = false;
    // Its old ranks must have ended before it gets a new seat.
    if (running_) {
      after_ranks_ = AfterRanks::say_hello;
    } else {
      seat_.reset();
      say(hello_);
    }
  }

  void hear(const EndRun& end) {
    unanswered_report_.clear();
    want_stop(end.why);
    if (saved_for_later(setup_.policy, Exited{end.exit_code}))
      log::info(end.why);
    else if (!end.why.empty() && !is_explained_)
      log::error(end.why);
    exit_code_ = end.exit_code;
    if (end.exit_code != 0 || has_taken_part_) return;
    log::error("the run has ended well, but this node took no part: no place became free for it");
    exit_code_ = 1;
  }

  void hear(const Refuse& refusal) { refuse(refusal.why, 2); }

  void hear(const Say& said) {
    if (!said.is_warning) return log::info(said.text);
    unanswered_report_.clear();  // the coordinator warns of failures
    log::warning(said.text);
  }

  /// What follows once this node's ranks have ended, besides the report of that.
  enum class AfterRanks { nothing, say_hello, take_over };

  const NodeSetup& setup_;
  MeetingPlace meeting_;
  NodeHello hello_;
  NodeLink& link_;
  Signals& signals_;
  const MakeNodeJob& make_job_;
  std::optional<Coordinator> coordinator_;  // if the nodes meet at this one
  std::deque<Up> own_ups_;                  // this node's to the coordinator, if that is here
  std::deque<Down> own_words_;              // the coordinator's to this node
  std::optional<Seat> seat_;                // in the latest round; none: not a member
  std::string main_host_;                   // of `meeting_`; empty until a Seat or Succession names it
  bool has_joined_ = false;                 // the nodes, at this one or another
  bool has_taken_part_ = false;             // in any round
  bool is_explained_ = false;               // the failure of this node's ranks in the round
  StoreSocket store_;                       // of the next round to start
  int store_port_ = 0;
  std::string store_name_, store_address_;
  bool due_ = false;  // the round's ranks must be started
  bool running_ = false;
  bool stop_wanted_ = false, was_told_to_stop_ = false;
  bool has_failed_ = false;  // a rank of this node in the round; the supervisor stops its other ranks
  bool is_ignoring_ = false;
  int strangers_ = 0;                     // hosts whose connections were refused
  std::optional<Succession> succession_;  // of the latest round that this node knows of
  std::optional<Handover> handover_;      // until the next round starts
  AfterRanks after_ranks_ = AfterRanks::nothing;
  std::vector<LinkWord> early_words_;       // that came before take_over()
  std::optional<std::int64_t> furthest_;    // step of this node's ranks in its last round
  std::string unanswered_report_;           // of the failure that the coordinator has not reacted to yet
  std::optional<std::string> lost_others_;  // set once the run can't continue here: why
  std::optional<int> exit_code_;
};

}  // namespace

int run_nodes(const NodeSetup& setup, NodeLink& link, Signals& signals, const MakeNodeJob& make_job) {
  return NodeRun(setup, link, signals, make_job).run();
}

}  // namespace hookline
