#include "launcher/rendezvous/run_nodes.h"

#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "base/address_text.h"
#include "base/count_text.h"
#include "base/log.h"
#include "base/printable.h"
#include "launcher/process/outcome.h"
#include "launcher/rank/rank_sockets.h"
#include "launcher/supervise/failure_report.h"

namespace hookline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeToTell{5};  // for the others to learn of the end

class NodeRun {
 public:
  NodeRun(const NodeSetup& setup, NodeLink& link, Signals& signals, const MakeNodeJob& make_job)
      : setup_(setup), link_(link), signals_(signals), make_job_(make_job) {}

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
      say(Leave{});
      link_.finish(kTimeToTell);
      throw;
    }
    link_.finish(kTimeToTell);
    return *exit_code_;
  }

 private:
  std::string place() const {
    return host_and_port(setup_.store.address, setup_.store.port) + " (run id '" + setup_.store.run_id + "')";
  }

  StoreReach reach_of_store() const {
    if (is_alone()) return StoreReach::this_host;
    in_addr digits{};
    return inet_pton(AF_INET, setup_.store.address.c_str(), &digits) == 1 ? StoreReach::ipv4
                                                                          : StoreReach::any;
  }

  bool is_alone() const { return setup_.limits.is_alone(); }

  void say(decltype(Up::what) what) { link_.send_up(to_line(Up{setup_.store.node, std::move(what)})); }

  void tell(const Coordinator::Words& words) {
    for (const Down& word : words) link_.send_down(to_line(word));
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
    if (!signal) return;
    const bool warned = signal == SIGUSR1;
    log::info(warned ? kEndedForLaterText
                     : "stopped by " + signal_name(*signal) + " while no ranks were running");
    if (coordinator_)
      tell(coordinator_->take({setup_.store.node, Leave{signal}}, Clock::now()));
    else
      say(Leave{signal});
    exit_code_ = warned ? kSavedForLater : 128 + *signal;
  }

  void run_round() {
    const Round round = round_;
    const Member& mine = round.members[static_cast<std::size_t>(*own_)];
    NodePlace place;
    place.node = *own_;
    place.nodes = static_cast<int>(round.members.size());
    place.first_rank = mine.first_rank;
    place.world_size = round.world_size;
    place.main_address = setup_.store.address;
    place.run_id = setup_.store.run_id;
    place.launch_id = round.members.front().node;  // the coordinator's node: the same in every round
    StoreSocket store = std::move(store_);
    store.port = store_port_;
    due_ = false;
    stop_wanted_ = false;
    if (place.node == 0 && !is_alone()) {
      std::string nodes;
      for (const Member& member : round.members)
        nodes += (nodes.empty() ? "" : ", ") + member.host + " (" + std::to_string(member.ranks) + ")";
      log::info(count_text(round.world_size, "rank") + " on " + count_text(place.nodes, "node") + ": " +
                nodes);
    }
    JobSpec job = make_job_(place, round.restarts, std::move(store));
    job.first_rank = mine.first_rank;
    if (!is_alone()) {  // else nothing but its own ranks can end the round
      job.stop_source.descriptor = [this] { return link_.descriptor(); };
      job.stop_source.read = [this] {
        take_words();
        if (coordinator_) tell(coordinator_->tick(Clock::now()));
        return std::exchange(stop_wanted_, false);
      };
      if (coordinator_) job.stop_source.next = [this] { return coordinator_->next(); };
    }
    job.stop_source.failed = [this, &round](int rank, const Outcome& outcome,
                                            std::optional<std::int64_t> step) {
      say(NodeFailed{round.number, rank, outcome, step});
    };
    running_ = has_taken_part_ = true;
    was_told_to_stop_ = false;
    Supervisor supervisor(std::move(job), signals_);
    const RunResult result = supervisor.run();
    running_ = false;
    is_explained_ = result.is_explained;
    NodeEnd end{round.number, {}, result.state.warned, "", {}};
    if (result.failure && !saved_for_later(setup_.policy, result.failure->cause.outcome)) {
      // The coordinator reports the first failure of all to every node.
      if (was_told_to_stop_ || lost_store_) {
        log::warning(failure_report(*result.failure));
      } else {
        end.report = failure_details(*result.failure);
        end.failed_rank = result.failure->cause.rank;
        const auto& error = result.failure->error;
        end.step = error && error->step ? error->step : result.step;
      }
    }
    if (result.state.stopped_by && !was_told_to_stop_) {
      end.signal = result.state.stopped_by;
      log::info("stopped by " + signal_name(*end.signal));
    }
    say(end);
    if (lost_store_) give_up_store();
  }

  void take_words() {
    while (const auto word = link_.next()) take(*word);
  }

  void take(const LinkWord& word) {
    switch (word.kind) {
      case LinkWord::Kind::serves:
        if (word.text == "yes") {
          coordinator_.emplace(setup_.limits, setup_.policy, setup_.store.node, setup_.hello, Clock::now());
          if (setup_.limits.least > 1) log::info("waiting for other nodes at " + place());
        } else {
          say(setup_.hello);
          log::info("joined the nodes at " + place());
        }
        break;
      case LinkWord::Kind::up:
        if (!coordinator_) break;
        if (const auto up = up_of(word.text))
          tell(coordinator_->take(*up, Clock::now()));
        else
          ignore(word.text);
        break;
      case LinkWord::Kind::lost:
        if (coordinator_) tell(coordinator_->lost(word.text, Clock::now()));
        break;
      case LinkWord::Kind::down:
        if (const auto down = down_of(word.text))
          std::visit([this](const auto& said) { hear(said); }, *down);
        else
          ignore(word.text);
        break;
      case LinkWord::Kind::unreachable:
        refuse(word.text, 1);
        break;
      case LinkWord::Kind::unusable:
        refuse(word.text, 2);
        break;
      case LinkWord::Kind::gone:
        if (exit_code_ || lost_store_) break;
        lost_store_ = word.text;
        want_stop("the node at " + setup_.store.address + ", which the others meet at, is gone");
        if (!running_) give_up_store();
        break;
    }
  }

  /// Logs only the first such message: anyone who can reach the store can write there any number of times.
  void ignore(const std::string& message) {
    if (is_alone()) throw std::logic_error("a message of this node to itself can't be read");
    constexpr std::size_t kShownBytes = 80;
    if (std::exchange(is_stranger_told_, true)) return;
    log::warning("a message at the nodes' store at " + place() +
                 " was not sent by a node of this hookline; ignoring this and all further such messages: '" +
                 printable(message.substr(0, kShownBytes)) + (message.size() > kShownBytes ? " …'" : "'"));
  }

  void give_up_store() {
    log::error("the node at " + host_and_port(setup_.store.address, setup_.store.port) +
               ", which the others meet at, is gone (" + *lost_store_ +
               "): the run can't continue without it");
    exit_code_ = 1;
  }

  void refuse(const std::string& why, int code) {
    log::error("this node can't take part in the run: " + why);
    exit_code_ = code;
  }

  void want_stop(const std::string& why) {
    if (!running_ || was_told_to_stop_) return;
    log::warning("stopping this node's ranks: " + why);
    stop_wanted_ = was_told_to_stop_ = true;
  }

  void hear(const Round& round) {
    const bool was_member = std::exchange(is_member_, false);
    round_ = round;
    own_.reset();
    for (std::size_t i = 0; i < round.members.size(); ++i) {
      if (round.members[i].node == setup_.store.node) own_ = static_cast<int>(i);
    }
    is_member_ = own_.has_value();
    if (was_member && !is_member_) say(setup_.hello);  // it was considered lost
    if (own_ != 0) return;                             // the port of rank 0's store comes later
    store_ = bind_store_socket(reach_of_store());
    store_port_ = store_.port;
    say(StorePort{round.number, store_port_});
    due_ = true;
  }

  void hear(const StorePort& port) {
    if (port.round != round_.number || !own_ || *own_ == 0) return;
    store_port_ = port.port;
    due_ = true;
  }

  void hear(const StopRound& stop) {
    if (stop.round != round_.number || !own_) return;
    want_stop(stop.why);
    if (running_) return;
    due_ = false;
    own_.reset();
    say(NodeEnd{round_.number, {}, false, "", {}});  // a second one does no harm
  }

  void hear(const EndRun& end) {
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

  void hear(const Refuse& refusal) {
    if (refusal.node == setup_.store.node) return refuse(refusal.why, 2);
    if (coordinator_) log::warning("a node was refused: " + refusal.why);
  }

  void hear(const Say& said) { said.is_warning ? log::warning(said.text) : log::info(said.text); }

  const NodeSetup& setup_;
  NodeLink& link_;
  Signals& signals_;
  const MakeNodeJob& make_job_;
  std::optional<Coordinator> coordinator_;  // if this node serves the store
  Round round_;
  std::optional<int> own_;       // this node's place in the round; none: not a member
  bool is_member_ = false;       // of the latest round
  bool has_taken_part_ = false;  // in any round
  bool is_explained_ = false;    // the failure of this node's ranks in the round
  StoreSocket store_;            // of the next round to start
  int store_port_ = 0;
  bool due_ = false;  // the round's ranks must be started
  bool running_ = false;
  bool stop_wanted_ = false, was_told_to_stop_ = false;
  bool is_stranger_told_ = false;
  std::optional<std::string> lost_store_;  // set once the store is lost: how
  std::optional<int> exit_code_;
};

}  // namespace

int run_nodes(const NodeSetup& setup, NodeLink& link, Signals& signals, const MakeNodeJob& make_job) {
  return NodeRun(setup, link, signals, make_job).run();
}

}  // namespace hookline
