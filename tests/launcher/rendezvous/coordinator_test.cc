#include "launcher/rendezvous/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "launcher/rendezvous/handover.h"
#include "launcher/rendezvous/messages.h"

namespace hookline {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const Coordinator::Time kStart{};

NodeHello node(const std::string& host, int ranks, std::optional<int> node_rank = {}) {
  return {host, ranks, node_rank, {{"ddp.comm_hook", "\"fp16\""}}};
}

NodeLimits limits(int least, int most) { return {least, most, seconds(300), seconds(5), seconds(6)}; }

struct Nodes {
  Coordinator coordinator;
  Coordinator::Time now = kStart;
  std::string launch = "a";  // the first coordinator's node

  /// The coordinator's messages in short form: all seats of a round make one text, and texts to log appear
  /// only if its own node gets them.
  std::vector<std::string> said(const Coordinator::Words& words) const {
    std::vector<std::string> texts;
    for (const auto& [word, to] : words) {
      if (const auto* seat = std::get_if<Seat>(&word)) {
        const Member& member = coordinator.round().members.at(static_cast<std::size_t>(seat->node));
        EXPECT_EQ(to, member.node);
        EXPECT_EQ(seat->first_rank, member.first_rank);
        EXPECT_EQ(seat->nodes, static_cast<int>(coordinator.round().members.size()));
        EXPECT_EQ(seat->launch, launch);
        const std::string place = " " + member.host + "@" + std::to_string(seat->first_rank);
        if (seat->node == 0)
          texts.push_back("round " + std::to_string(seat->round) + " after " +
                          std::to_string(seat->restarts) + ":" + place);
        else
          texts.back() += place;
        if (seat->node + 1 == seat->nodes) texts.back() += " of " + std::to_string(seat->world_size);
      }
      if (const auto* port = std::get_if<StorePort>(&word))
        texts.push_back("port " + std::to_string(port->port));
      if (const auto* stop = std::get_if<StopRound>(&word)) texts.push_back("stop: " + stop->why);
      if (const auto* end = std::get_if<EndRun>(&word))
        texts.push_back("end " + std::to_string(end->exit_code) + ": " + end->why);
      if (const auto* refusal = std::get_if<Refuse>(&word))
        texts.push_back("refuse " + to + ": " + refusal->why);
      if (std::holds_alternative<Rejoin>(word)) texts.push_back("rejoin " + to);
      if (const auto* succession = std::get_if<Succession>(&word)) {
        std::string text = "successors" + (to.empty() ? "" : " for " + to) + ":";
        for (const Successor& successor : succession->successors)
          text += " " + successor.host + "@" + successor.address;
        texts.push_back(text);
      }
      if (const auto* say = std::get_if<Say>(&word); say && (to.empty() || to == "a"))
        texts.push_back((say->is_warning ? "warn: " : "say: ") + say->text);
    }
    return texts;
  }

  Nodes(NodeLimits of, RestartPolicy policy, NodeHello own, const std::optional<TakenOver>& taken = {})
      : coordinator(of, policy, "a", std::move(own), kStart, taken) {}
  template <class What>
  std::vector<std::string> take(const std::string& from, What what, const std::string& address = "") {
    return said(coordinator.take({from, std::move(what), address}, now));
  }
  std::vector<std::string> tick(seconds later) {
    now += later;
    return said(coordinator.tick(now));
  }
  std::vector<std::string> lost(const std::string& who) { return said(coordinator.lost(who, now)); }
  std::vector<std::string> back(const std::string& who) { return said(coordinator.back(who)); }
};

TEST(Coordinator, StartsAFixedNumberOfNodesInTheOrderOfTheirRanks) {
  Nodes run(limits(3, 3), {}, node("one", 2, 0));
  EXPECT_THAT(run.take("c", node("three", 1, 2)), ElementsAre("say: the node three joined: 2 of 3 nodes"));
  EXPECT_THAT(run.take("b", node("two", 4, 1)), ElementsAre("round 1 after 0: one@0 two@2 three@6 of 7"));
  EXPECT_THAT(run.take("a", StorePort{1, 4711}), IsEmpty()) << "not all have their seats";
  run.take("a", Seated{1});
  run.take("b", Seated{1});
  EXPECT_THAT(run.take("c", Seated{1}), ElementsAre("port 4711"));
  EXPECT_THAT(run.take("a", NodeEnd{1, {}, false, ""}), IsEmpty());
  EXPECT_THAT(run.take("b", NodeEnd{1, {}, false, ""}), IsEmpty());
  EXPECT_THAT(run.take("c", NodeEnd{1, {}, false, ""}), ElementsAre("end 0: "));
}

TEST(Coordinator, WaitsForTheLastCallUnlessAllNodesHaveJoined) {
  Nodes run(limits(2, 4), {}, node("one", 1));
  EXPECT_THAT(run.tick(seconds(100)), IsEmpty());
  EXPECT_THAT(run.take("b", node("two", 1)), ElementsAre("say: the node two joined: 2 of 4 nodes"));
  EXPECT_THAT(run.tick(seconds(4)), IsEmpty());
  EXPECT_THAT(run.take("c", node("three", 1)), ElementsAre("say: the node three joined: 3 of 4 nodes"));
  EXPECT_THAT(run.tick(seconds(4)), IsEmpty()) << "the call starts again with each that comes";
  EXPECT_EQ(run.coordinator.next(), run.now + seconds(1));
  EXPECT_THAT(run.tick(seconds(1)), ElementsAre("round 1 after 0: one@0 two@1 three@2 of 3"));

  Nodes full(limits(1, 2), {}, node("one", 1));
  EXPECT_THAT(full.take("b", node("two", 1)), ElementsAre("round 1 after 0: one@0 two@1 of 2"));
}

TEST(Coordinator, NamesTheMissingNodes) {
  Nodes run(limits(3, 3), {}, node("one", 1, 0));
  run.take("c", node("three", 1, 2));
  EXPECT_THAT(run.tick(seconds(299)), IsEmpty());
  EXPECT_THAT(
      run.tick(seconds(1)),
      ElementsAre("end 1: 2 of 3 nodes are there after 300 s; missing: node_rank 1; start the same command "
                  "on each, with the same main_address and main_port, or set [launch] join_timeout_seconds"));
}

TEST(Coordinator, SaysWhoWasTurnedAwayIfTooFewNodesJoin) {
  Nodes run(limits(2, 2), {}, node("one", 1));
  run.coordinator.turned_away("a connection from 10.0.0.2 was refused");
  run.take("b", NodeHello{"two", 1, {}, {{"ddp.comm_hook", "\"no\""}}});
  EXPECT_THAT(run.tick(seconds(300)),
              ElementsAre(AllOf(StartsWith("end 1: 1 of 2 nodes is there after 300 s; start "),
                                HasSubstr("join_timeout_seconds; the node two was refused: it differs "))));
  Nodes another(limits(2, 2), {}, node("one", 1));
  another.coordinator.turned_away("a connection from 10.0.0.2 was refused");
  EXPECT_THAT(another.tick(seconds(300)),
              ElementsAre(HasSubstr("join_timeout_seconds; a connection from 10.0.0.2 was refused")));
  Nodes formed(limits(2, 2), {1, false, seconds(1)}, node("one", 1));
  formed.coordinator.turned_away("a connection from 10.0.0.2 was refused");
  formed.take("b", node("two", 1));
  formed.lost("b");
  formed.take("a", NodeEnd{1, {}, false, ""});
  EXPECT_THAT(formed.tick(seconds(300)), ElementsAre(Not(HasSubstr("10.0.0.2")))) << "they met since";
}

TEST(Coordinator, RefusesANodeWhoseRanksHaveAnAddressOfAnotherFamily) {
  NodeHello one = node("one", 1), two = node("two", 1), three = node("three", 1);
  one.ranks_address = "10.0.0.1";
  two.ranks_address = "fd00::2";
  three.ranks_address = "10.0.0.3";
  Nodes run(limits(3, 3), {}, one);
  EXPECT_THAT(
      run.take("b", two),
      Contains(
          "refuse b: its ranks have the address fd00::2, and those of the node one have 10.0.0.1, so they "
          "can't connect to each other: set [rendezvous] main_address to an address in digits, or to a "
          "name that stands for the same address family (IPv4 or IPv6) on every host"));
  EXPECT_THAT(run.take("c", three), Contains("say: the node three joined: 2 of 3 nodes"));
  EXPECT_THAT(run.take("d", node("four", 1)), ElementsAre("round 1 after 0: one@0 three@1 four@2 of 3"))
      << "it doesn't know its address yet";
}

TEST(Coordinator, RefusesANodeThatDisagreesWithTheOthers) {
  Nodes run(limits(2, 2), {}, node("one", 1, 0));
  NodeHello other = node("two", 1, 1);
  other.common["ddp.comm_hook"] = "\"no\"";
  const std::string why =
      "it differs where all nodes must agree:\n  ddp.comm_hook is \"fp16\" on one and \"no\" on two";
  EXPECT_THAT(run.take("b", other),
              ElementsAre("refuse b: " + why, "warn: the node two was refused: " + why));
  EXPECT_THAT(run.take("c", node("two", 1, 0)),
              Contains("refuse c: node_rank 0 is taken by one: each node needs one of its own"));
  EXPECT_THAT(run.take("d", node("two", 1, 5)),
              Contains("refuse d: node_rank is 5, and there are 2 nodes: it must be less"));
  EXPECT_THAT(run.take("b", NodeEnd{1, {}, false, ""}), IsEmpty()) << "it was refused";
  EXPECT_THAT(run.take("e", node("two", 1, 1)), ElementsAre("round 1 after 0: one@0 two@1 of 2"));
}

TEST(Coordinator, EndsWithTheCodeOfTheRankThatFailedFirst) {
  Nodes run(limits(2, 2), {}, node("one", 1, 0));
  run.take("b", node("two", 1, 1));
  EXPECT_THAT(run.take("b", NodeFailed{1, 1, Signalled{11, true}, 7}),
              ElementsAre("stop: rank 1 on two was killed by SIGSEGV (signal 11, core dumped)"));
  EXPECT_THAT(run.take("a", NodeFailed{1, 0, Exited{1}, 7}), IsEmpty()) << "it follows from the first";
  EXPECT_THAT(run.take("b", NodeEnd{1, {}, false, ""}), IsEmpty());
  EXPECT_THAT(run.take("a", NodeEnd{1, {}, false, ""}),
              ElementsAre("end 139: rank 1 on two was killed by SIGSEGV (signal 11, core dumped)"));
}

// Every node notices the stall, but a node whose ranks all wait is not its cause.
TEST(Coordinator, NamesTheStuckRankWhicheverNodeReportsFirst) {
  const std::string outside = "rank 1 on two finished no step for 60 s ([launch] stall_timeout_seconds)";
  Nodes run(limits(3, 3), {}, node("one", 1, 0));
  run.take("b", node("two", 1, 1));
  run.take("c", node("three", 1, 2));
  EXPECT_THAT(run.take("a", NodeFailed{1, 0, Stuck{60, true}, 7}), IsEmpty());
  EXPECT_EQ(run.coordinator.next(), run.now + seconds(1));
  EXPECT_THAT(run.take("b", NodeFailed{1, 1, Stuck{60, false}, 6}), IsEmpty());
  EXPECT_THAT(run.take("c", NodeFailed{1, 2, Exited{1}, 7}), IsEmpty()) << "it follows from the others' end";
  EXPECT_THAT(run.tick(seconds(1)), ElementsAre("stop: " + outside));
  run.take("a", NodeEnd{1, {}, false, "waits in a collective", 0});
  run.take("c", NodeEnd{1, {}, false, ""});
  EXPECT_THAT(run.take("b", NodeEnd{1, {}, false, ""}), ElementsAre("end 124: " + outside));

  Nodes brief(limits(2, 2), {}, node("one", 1, 0));
  brief.take("b", node("two", 1, 1));
  brief.take("a", NodeFailed{1, 0, Stuck{60, true}, 7});
  brief.take("a", NodeEnd{1, {}, false, ""});
  EXPECT_THAT(
      brief.take("b", NodeEnd{1, {}, false, ""}),
      ElementsAre("end 124: rank 0 on one finished no step for 60 s ([launch] stall_timeout_seconds)"))
      << "both have ended before the time is over";
}

TEST(Coordinator, RelaysANodesFailureReportToAllNodes) {
  Nodes run(limits(2, 2), {}, node("one", 1, 0));
  run.take("b", node("two", 1, 1));
  run.take("b", NodeFailed{1, 1, Exited{7}, {}});
  run.take("a", NodeEnd{1, {}, false, "follows from it", 0});
  EXPECT_THAT(run.take("b", NodeEnd{1, {}, false, "exited with code 7\n  its logs on two: /logs", 1}),
              ElementsAre("end 7: rank 1 on two exited with code 7\n  its logs on two: /logs"));
}

TEST(Coordinator, EndsWithTheFirstFailureThoughTheReportIsAboutAnotherRank) {
  Nodes run(limits(2, 2), {}, node("one", 1, 0));
  run.take("b", node("two", 2, 1));
  run.take("b", NodeFailed{1, 1, Exited{7}, {}});
  run.take("a", NodeEnd{1, {}, false, ""});
  EXPECT_THAT(run.take("b", NodeEnd{1, {}, false, "exited with code 1", 2}),
              ElementsAre("end 7: rank 1 on two exited with code 7"));
}

TEST(Coordinator, ShowsALaterFailureWhereItWas) {
  Nodes run(limits(2, 2), {}, node("one", 1, 0));
  run.take("b", node("two", 1, 1));
  run.take("b", NodeFailed{1, 1, Exited{7}, {}});
  EXPECT_THAT(run.take("a", NodeEnd{1, {}, false, "exited with code 3\n  its logs on one: /logs", 0}),
              ElementsAre("warn: rank 0 on one exited with code 3\n  its logs on one: /logs"));
  EXPECT_THAT(run.take("b", NodeEnd{1, {}, false, "exited with code 7", 1}),
              ElementsAre("end 7: rank 1 on two exited with code 7"));
}

TEST(Coordinator, EndsTheRunIfItsOwnNodeLeaves) {
  Nodes run(limits(2, 3), {}, node("one", 1));
  run.take("b", node("two", 1));
  run.take("c", node("three", 1));
  EXPECT_THAT(run.take("a", Leave{}),
              ElementsAre("end 1: the node one has left the run, which can't continue without it"));
}

TEST(Coordinator, TakesASecondHelloOfANode) {
  Nodes run(limits(2, 2), {}, node("one", 1, 0));
  run.take("b", node("two", 1, 1));
  EXPECT_THAT(run.take("b", node("two", 1, 1)), Not(::testing::Contains(::testing::StartsWith("refuse"))))
      << "its node_rank is its own";
}

TEST(Coordinator, RestartsAllRanksAsOftenAsAllowed) {
  Nodes run(limits(2, 2), {1, false, seconds(2)}, node("one", 1, 0));
  run.take("b", node("two", 1, 1));
  const auto fail = [&](int round) {
    run.take("b", NodeFailed{round, 1, Exited{7}, round});
    run.take("b", NodeEnd{round, {}, false, ""});
    return run.take("a", NodeEnd{round, {}, false, ""});
  };
  EXPECT_THAT(fail(1), ElementsAre("warn: rank 1 on two exited with code 7",
                                   "say: restarting all ranks in 2 s (restart 1 of 1)"));
  EXPECT_THAT(run.tick(seconds(1)), IsEmpty());
  EXPECT_THAT(run.tick(seconds(1)), ElementsAre("round 2 after 1: one@0 two@1 of 2"));
  EXPECT_THAT(fail(2),
              ElementsAre("say: no restart: the ranks were restarted once, as often as max_restarts allows",
                          "end 7: rank 1 on two exited with code 7"));
}

/// A run of three nodes loses two, one per round: how the coordinator reacts to the second loss, given the
/// step that each round reached.
std::vector<std::string> after_losses(std::optional<std::int64_t> first, std::optional<std::int64_t> second,
                                      RestartPolicy policy = {}) {
  Nodes run(limits(1, 3), policy, node("one", 1));
  run.take("b", node("two", 1));
  run.take("c", node("three", 1));
  run.lost("b");
  run.take("a", NodeEnd{1, {}, false, "", {}, {}, first});
  run.take("c", NodeEnd{1, {}, false, ""});
  run.tick(seconds(5));
  run.lost("c");
  return run.take("a", NodeEnd{2, {}, false, "", {}, {}, second});
}

TEST(Coordinator, EndsARunThatLosesNodesAndGetsNoFurther) {
  const std::string no_further =
      "end 69: the node three is lost: it sends no heartbeat; in this attempt the ranks got no further than "
      "step "
      "5, which they had reached before, so the run ends (restart = \"always\" continues)";
  EXPECT_THAT(after_losses(5, 5), ElementsAre(no_further));
  EXPECT_THAT(after_losses(5, {}), ElementsAre(no_further));
  const ::testing::Matcher<std::string> continues = StartsWith("say: forming the run again: 1 of 3 nodes; ");
  EXPECT_THAT(after_losses(5, 6), ElementsAre(continues));
  EXPECT_THAT(after_losses({}, {}), ElementsAre(continues)) << "no rank says how far it is";
  EXPECT_THAT(after_losses(5, 5, {0, true}), ElementsAre(continues));
}

TEST(Coordinator, NamesTheNodeThatTheOthersWaitFor) {
  Nodes run(limits(3, 3), {}, node("one", 2, 0));
  run.take("b", node("two", 2, 1));
  run.take("c", node("three", 2, 2));
  run.take("a", NodePace{1, 0, 0.4});
  EXPECT_THAT(run.take("a", NodePace{1, 0, 0.5}), IsEmpty());
  EXPECT_THAT(run.take("c", NodePace{1, 4, 0.52}), IsEmpty());
  EXPECT_THAT(
      run.take("b", NodePace{1, 3, 0.75}),
      ElementsAre(
          "warn: the node two is the slowest: the others wait 23 % of the time for it, mostly for its "
          "rank 3"));
  run.take("a", NodePace{1, 0, 0.5});
  run.take("c", NodePace{1, 4, 0.52});
  EXPECT_THAT(run.take("b", NodePace{1, 3, 0.61}), IsEmpty()) << "the others wait for it 9 % of the time";
  EXPECT_THAT(run.take("b", NodePace{2, 3, 1}), IsEmpty()) << "there is no round 2";
  run.take("b", NodePace{1, 3, 0.9});
  run.take("b", NodeEnd{1, {}, false, ""});
  run.lost("b");
  run.take("c", NodePace{1, 4, 0.52});
  EXPECT_THAT(run.take("a", NodePace{1, 0, 0.5}), IsEmpty()) << "two has ended its part, and is gone";
}

TEST(Coordinator, FormsAgainWithoutALostNodeAndUsesNoRestart) {
  Nodes run(limits(2, 3), {}, node("one", 1));
  run.take("b", node("two", 1));
  run.take("c", node("three", 1));
  EXPECT_THAT(run.lost("b"), ElementsAre("stop: the node two is lost: it sends no heartbeat"));
  EXPECT_THAT(run.take("a", NodeEnd{1, {}, false, ""}), IsEmpty());
  EXPECT_THAT(run.take("c", NodeEnd{1, {}, false, ""}),
              ElementsAre(StartsWith("say: forming the run again: 2 of 3 nodes")));
  EXPECT_THAT(run.tick(seconds(5)), ElementsAre("round 2 after 1: one@0 three@1 of 2"));
  EXPECT_THAT(run.lost("c"), ElementsAre("stop: the node three is lost: it sends no heartbeat"));
  EXPECT_THAT(run.take("a", NodeEnd{2, {}, false, ""}),
              ElementsAre(StartsWith("say: forming the run again: 1 of 3 nodes")));
  EXPECT_THAT(run.take("d", node("four", 2)), ElementsAre("say: the node four joined: 2 of 3 nodes"))
      << "a newcomer is waited for";
  EXPECT_THAT(run.tick(seconds(5)), ElementsAre("round 3 after 2: one@0 four@1 of 3"));
}

TEST(Coordinator, HasALostNodeJoinAgainWhenItIsBack) {
  Nodes run(limits(2, 3), {}, node("one", 1));
  run.take("b", node("two", 1));
  run.take("c", node("three", 1));
  run.lost("c");
  run.take("a", NodeEnd{1, {}, false, ""});
  run.take("b", NodeEnd{1, {}, false, ""});
  EXPECT_THAT(run.take("c", NodeEnd{1, {}, false, ""}), IsEmpty()) << "of a node that counts as lost";
  EXPECT_THAT(run.back("c"), ElementsAre("rejoin c"));
  EXPECT_THAT(run.take("c", node("three", 1)), ElementsAre("round 2 after 1: one@0 two@1 three@2 of 3"));
  EXPECT_THAT(run.back("c"), IsEmpty()) << "it is here";
}

/// Adds nodes, each with a host name and an address: "host of b" and "10.0.0.b" for "b".
void add(Nodes& run, const std::vector<std::string>& ids) {
  for (const std::string& id : ids) run.take(id, node("host of " + id, 1), "10.0.0." + id);
}

/// All members of the round say that they have their seats. Returns what the coordinator says after the last
/// of them.
std::vector<std::string> seat_all(Nodes& run) {
  std::vector<std::string> said;
  for (const Member& member : run.coordinator.round().members) {
    EXPECT_THAT(said, IsEmpty());
    said = run.take(member.node, Seated{run.coordinator.round().number});
  }
  return said;
}

NodeEnd end_of(int round) { return {round, {}, false, ""}; }

TEST(Coordinator, NamesItsSuccessorsOnceAllMembersHaveTheirSeats) {
  Nodes run(limits(3, 5), {}, node("one", 1));
  add(run, {"b", "c", "d"});
  EXPECT_THAT(run.take("e", node("host of e", 1), "10.0.0.e"),
              ElementsAre("round 1 after 0: one@0 host of b@1 host of c@2 host of d@3 host of e@4 of 5"));
  EXPECT_THAT(run.take("a", StorePort{1, 7}), IsEmpty());
  EXPECT_THAT(seat_all(run),
              ElementsAre("successors: host of b@10.0.0.b host of c@10.0.0.c host of d@10.0.0.d", "port 7"))
      << "no ranks of other nodes run before they can continue without this one";
  EXPECT_THAT(run.take("b", Seated{1}), IsEmpty()) << "once";

  const auto successors_of = [](NodeLimits of) {
    Nodes nodes(of, {}, node("one", 1));
    add(nodes, {"b"});
    nodes.tick(seconds(5));
    EXPECT_EQ(nodes.coordinator.round().number, 1);
    return seat_all(nodes);
  };
  EXPECT_THAT(successors_of(limits(2, 2)), IsEmpty()) << "it can't lose a node";
  EXPECT_THAT(successors_of(limits(1, 2)), IsEmpty()) << "a second run could form with as many nodes";
  EXPECT_THAT(successors_of(limits(2, 3)), IsEmpty()) << "one is too few to continue";

  Nodes least(limits(2, 3), {}, node("one", 1));
  add(least, {"b"});
  least.tick(seconds(5));
  seat_all(least);
  EXPECT_THAT(least.take("c", node("three", 1), "10.0.0.c"),
              ElementsAre("successors: host of b@10.0.0.b", StartsWith("say: the node three waits; ")))
      << "now two would be left, and a node that says that it waits is one of them";
  EXPECT_THAT(least.take("d", node("four", 1), "10.0.0.d"),
              ElementsAre("successors for d: host of b@10.0.0.b", StartsWith("say: the node four waits; ")));
}

/// A run of three that can lose one, all of whom have their seats.
Nodes run_of_three() {
  Nodes run(limits(2, 3), {}, node("one", 1));
  add(run, {"b", "c"});
  seat_all(run);
  return run;
}

TEST(Coordinator, ContinuesOnlyWithHalfOfTheLastRoundSinceTheOthersMayContinueToo) {
  Nodes most = run_of_three();
  most.lost("b");
  most.take("a", end_of(1));
  EXPECT_THAT(most.take("c", end_of(1)), ElementsAre(StartsWith("say: forming the run again: 2 of 3 nodes")));
  EXPECT_THAT(most.tick(seconds(5)), ElementsAre("round 2 after 1: one@0 host of c@1 of 2"));

  Nodes few = run_of_three();
  few.lost("b");
  few.lost("c");
  EXPECT_THAT(few.take("a", end_of(1)),
              ElementsAre(StartsWith(
                  "say: forming the run again: 1 of 3 nodes, too few of the last attempt to continue "
                  "without the others")));
  EXPECT_THAT(few.take("e", node("new", 1)), ElementsAre("say: the node new joined: 2 of 3 nodes"));
  EXPECT_THAT(few.tick(seconds(17)), IsEmpty());
  EXPECT_THAT(few.tick(seconds(1)),
              ElementsAre("end 1: 1 of the 3 nodes of the last attempt is there, too few to continue: the "
                          "others may have continued the run; see their logs, or launch again"));

  Nodes back = run_of_three();
  back.lost("b");
  back.lost("c");
  back.take("a", end_of(1));
  back.take("e", node("new", 1));
  back.take("f", node("newer", 1));
  EXPECT_THAT(back.take("b", node("host of b", 1)),
              ElementsAre("round 2 after 1: one@0 new@1 host of b@2 of 3"))
      << "a member that is back gets a place, and the last newcomer does not";

  Nodes left = run_of_three();
  left.take("b", Leave{});
  left.lost("c");
  EXPECT_THAT(left.take("a", end_of(1)), ElementsAre(StartsWith("say: forming the run again: 1 of 3 nodes")))
      << "one that has said that it leaves does not continue elsewhere";
}

TEST(Coordinator, IsBoundByAnEarlierRoundUntilAllMembersOfTheNextHaveTheirSeats) {
  for (const bool all_have_seats : {false, true}) {
    Nodes run(limits(3, 5), {}, node("one", 1));
    add(run, {"b", "c", "d", "e"});
    seat_all(run);
    run.lost("d");
    for (const std::string id : {"a", "b", "c", "e"}) run.take(id, end_of(1));
    run.tick(seconds(5));
    ASSERT_EQ(run.coordinator.round().number, 2);
    for (const std::string id : {"a", "b", "e"}) EXPECT_THAT(run.take(id, Seated{2}), IsEmpty());
    if (all_have_seats) {
      EXPECT_THAT(run.take("c", Seated{2}), ElementsAre(::testing::StartsWith("successors: ")));
    }
    run.lost("b");
    run.lost("c");
    run.take("a", end_of(2));
    run.take("e", end_of(2));
    add(run, {"f"});
    run.tick(seconds(5));
    EXPECT_EQ(run.coordinator.round().number, all_have_seats ? 3 : 2)
        << "b and c may have continued the first round with d";
  }
}

/// What a successor takes over after a round 3 with `members` nodes.
TakenOver taken_over(int members) {
  TakenOver taken{{3, 2, members, "lost", "launch"}, 60, seconds(12)};
  taken.from.failures = 1;
  taken.from.last_failure = NodeFailed{3, 1, Exited{7}, 40};
  taken.from.furthest = 50;
  return taken;
}

NodeHello member(const std::string& host, int last_round = 3) {
  NodeHello hello = node(host, 1);
  hello.last_round = last_round;
  return hello;
}

TEST(Coordinator, TakesThePlaceOfAnotherWithAllThatItKnew) {
  Nodes run(limits(2, 3), {.max_restarts = 2}, member("two"), taken_over(3));
  run.launch = "launch";
  EXPECT_THAT(run.tick(seconds(11)), IsEmpty());
  EXPECT_THAT(run.take("c", member("three"), "10.0.0.c"),
              ElementsAre("say: the node three joined: 2 of 3 nodes"));
  EXPECT_THAT(run.tick(seconds(5)), ElementsAre("round 4 after 3: two@0 three@1 of 2"));
  EXPECT_THAT(run.take("c", NodeFailed{4, 1, Exited{7}, 40}),
              ElementsAre("stop: rank 1 on three exited with code 7"));
  run.take("a", end_of(4));
  EXPECT_THAT(run.take("c", end_of(4)),
              ElementsAre(AllOf(StartsWith("say: no restart: "), HasSubstr(" in the same way at step 40 ")),
                          "end 7: rank 1 on three exited with code 7"))
      << "the failure before is known";

  TakenOver stuck = taken_over(3);
  stuck.furthest = 50;
  Nodes no_further(limits(2, 3), {}, member("two"), stuck);
  no_further.take("c", member("three"));
  EXPECT_THAT(no_further.tick(seconds(5)), ElementsAre(AllOf(StartsWith("end 69: the node lost is lost; "),
                                                             HasSubstr(" no further than step 50, "))));

  Nodes later(limits(2, 3), {}, member("two"), taken_over(3));
  later.launch = "launch";
  later.take("c", member("three"));
  later.take("d", member("four", 8));
  EXPECT_EQ(later.coordinator.round().number, 9) << "no node has been in a round of this number";
}

TEST(Coordinator, TakesThePlaceOfAnotherOnlyWithMoreThanHalfOfTheLastRound) {
  /// Does a successor continue if `here` members of the last round are there, itself included, and some nodes
  /// that were not in that round?
  const auto continues = [](NodeLimits of, int members, int here) {
    Nodes run(of, {}, member("two"), taken_over(members));
    run.launch = "launch";
    // Those that wait are there first, since they have no ranks to stop.
    run.take("x", member("of an earlier round", 2));
    run.take("y", node("new", 1));
    for (int i = 1; i < here; ++i) run.take("b" + std::to_string(i), member("host"));
    const auto said = run.tick(seconds(12));
    const bool has_ended =
        !said.empty() && said.front().starts_with("end 1: " + std::to_string(here) + " of the ");
    EXPECT_EQ(has_ended, run.coordinator.round().members.empty());
    return !has_ended;
  };
  EXPECT_FALSE(continues(limits(2, 3), 2, 1));
  EXPECT_FALSE(continues(limits(2, 3), 3, 1));
  EXPECT_TRUE(continues(limits(2, 3), 3, 2));
  EXPECT_FALSE(continues(limits(5, 8), 8, 4));
  EXPECT_TRUE(continues(limits(5, 8), 8, 5));
  NodeLimits with_spares = limits(3, 3);
  with_spares.spares = 2;
  EXPECT_TRUE(continues(with_spares, 3, 2));
  EXPECT_FALSE(continues(with_spares, 3, 1));
}

TEST(Coordinator, SendsAtMostTwoMessagesToEachNode) {
  constexpr int kNodes = 4000;
  const auto start = std::chrono::steady_clock::now();
  Nodes run(limits(kNodes, kNodes), {}, node("node 0", 1));
  std::size_t messages = 0;
  for (int i = 1; i < kNodes; ++i) {
    const std::string newcomer = "n" + std::to_string(i);
    const Coordinator::Words words =
        run.coordinator.take({newcomer, node("node " + std::to_string(i), 1)}, run.now);
    for (const Word& word : words) {
      messages += word.to == "a" || word.to.empty() ? 0 : 1;
      EXPECT_TRUE(word.to == "a" || word.to == newcomer || i + 1 == kNodes)
          << "joining takes no message to the others";
    }
  }
  EXPECT_EQ(messages, kNodes - 2U + kNodes - 1U)
      << "each but the last learns that it has joined, and each gets a seat";
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10)) << "a hundred times what it takes";
}

TEST(Handover, TurnsToEachSuccessorForAsLongAsTheOthersDo) {
  Handover handover({1, 0, 3, "one", "", 0, {}, {}, {{"b", "two", "10.0.0.2"}, {"c", "three", "10.0.0.3"}}},
                    "the node is gone");
  MeetingPlace place;
  place.node = "c";
  place.port = 29500;
  place.node_timeout = seconds(5);
  const auto lost = Handover::Time(std::chrono::hours(1));
  handover.lose(lost);
  EXPECT_EQ(handover.obstacle(place, "no route"), "") << "of the coordinator, whose loss is known";
  EXPECT_EQ(handover.turn(place, lost + seconds(1)),
            "the node is gone; the nodes meet again at two, at 10.0.0.2:29500");
  EXPECT_FALSE(place.serves);
  EXPECT_EQ(place.join_timeout, seconds(11)) << "twice the timeout and two seconds after the loss";
  EXPECT_EQ(handover.obstacle(place, "no route"), "two can't be reached: no route");
  EXPECT_EQ(handover.turn(place, lost + seconds(3)), "this node takes the place of one, at 10.0.0.3:29500");
  EXPECT_TRUE(place.serves);
  EXPECT_EQ(place.join_timeout, seconds(21)) << "the others may still try the first successor";
  EXPECT_EQ(handover.obstacle(place, "taken"), "this node can't take over: taken");
  EXPECT_FALSE(handover.turn(place, lost + seconds(4)));
  EXPECT_EQ(handover.why_none(), "the node is gone, and no node takes its place");
}

TEST(Coordinator, BlamesALostNodeForTheFailuresItCauses) {
  Nodes run(limits(2, 3), {}, node("one", 1));
  run.take("b", node("two", 1));
  run.take("c", node("three", 1));
  EXPECT_THAT(run.take("a", NodeFailed{1, 0, Exited{1}, 7}),
              ElementsAre("stop: rank 0 on one exited with code 1"))
      << "its rank noticed first that the other one is gone";
  run.take("a", NodeEnd{1, {}, false, ""});
  EXPECT_THAT(run.take("b", NodeEnd{1, {}, false, ""}), IsEmpty());
  EXPECT_THAT(run.lost("c"),
              ElementsAre("say: forming the run again: 2 of 3 nodes; the node three is lost: it sends no "
                          "heartbeat"));
  EXPECT_THAT(run.tick(seconds(5)), ElementsAre("round 2 after 1: one@0 two@1 of 2"));
  EXPECT_THAT(run.take("a", StorePort{1, 5}), IsEmpty()) << "of a round that is over";
}

TEST(Coordinator, AdmitsALateNodeWhenTheRanksStartAgain) {
  Nodes run(limits(1, 2), {1, false, seconds(0)}, node("one", 1));
  EXPECT_THAT(run.tick(seconds(5)), ElementsAre("round 1 after 0: one@0 of 1"));
  EXPECT_THAT(run.take("b", node("two", 1)),
              ElementsAre("say: the node two waits; it takes part when the ranks start again"));
  run.take("a", NodeFailed{1, 0, Exited{7}, {}});
  run.take("a", NodeEnd{1, {}, false, ""});
  EXPECT_THAT(run.tick(seconds(0)), ElementsAre("round 2 after 1: one@0 two@1 of 2"));
}

TEST(Coordinator, EndsAFixedSizeRunOnALostNodeUnlessRestartsAreAllowed) {
  Nodes run(limits(2, 2), {}, node("one", 1, 0));
  run.take("b", node("two", 1, 1));
  run.lost("b");
  EXPECT_THAT(run.take("a", NodeEnd{1, {}, false, ""}),
              ElementsAre("end 1: the node two is lost: it sends no heartbeat"));

  Nodes patient(limits(2, 2), {1, false, seconds(1)}, node("one", 1, 0));
  patient.take("b", node("two", 1, 1));
  patient.lost("b");
  EXPECT_THAT(patient.take("a", NodeEnd{1, {}, false, ""}),
              ElementsAre(StartsWith("say: forming the run again: 1 of 2 nodes")));
  EXPECT_THAT(patient.take("c", node("two", 1, 1)), ElementsAre("round 2 after 1: one@0 two@1 of 2"));
}

TEST(Coordinator, RefusesOneMoreThanAFixedNumberAndNamesTheMembers) {
  Nodes run(limits(2, 2), {1, false, seconds(1)}, node("one", 1));
  EXPECT_THAT(run.take("b", node("two", 1)), ElementsAre("round 1 after 0: one@0 two@1 of 2"));
  EXPECT_THAT(run.take("c", node("three", 1)),
              ElementsAre("say: the node three waits: the run has its 2 nodes"));
  EXPECT_THAT(run.tick(seconds(5)), IsEmpty());
  EXPECT_EQ(run.coordinator.next(), run.now + seconds(1));
  EXPECT_THAT(run.tick(seconds(1)),
              Contains("refuse c: it is one too many: the run has its 2 nodes already, one and two"));
  EXPECT_EQ(run.coordinator.next(), Coordinator::Time::max());
}

TEST(Coordinator, GivesANodeThatCameToAFullRunThePlaceOfALostOne) {
  Nodes run(limits(2, 2), {1, false, seconds(1)}, node("one", 1));
  run.take("b", node("two", 1));
  run.take("c", node("two", 1));  // b's launcher was killed and started again
  EXPECT_THAT(run.lost("b"), ElementsAre("stop: the node two is lost: it sends no heartbeat"));
  EXPECT_THAT(run.tick(seconds(10)), IsEmpty()) << "it is needed now";
  EXPECT_THAT(run.take("a", NodeEnd{1, {}, false, ""}),
              ElementsAre(StartsWith("say: forming the run again: 2 of 2 nodes"),
                          "round 2 after 1: one@0 two@1 of 2"));
}

TEST(Coordinator, GivesTheSpareThePlaceOfALostNodeAndUsesNoRestart) {
  NodeLimits with_spare = limits(2, 2);
  with_spare.spares = 1;
  Nodes run(with_spare, {}, node("one", 1));
  EXPECT_THAT(run.take("b", node("two", 1)), ElementsAre("round 1 after 0: one@0 two@1 of 2"));
  EXPECT_THAT(run.take("c", node("three", 1)),
              ElementsAre("say: the node three waits as a spare, to take the place of a node that is lost"));
  EXPECT_THAT(run.take("d", node("four", 1)),
              ElementsAre("say: the node four waits: the run has its 2 nodes and 1 spare"));
  EXPECT_THAT(run.tick(seconds(6)), Contains(StartsWith("refuse d: it is one too many: ")));
  EXPECT_EQ(run.coordinator.next(), Coordinator::Time::max());
  run.lost("b");
  EXPECT_THAT(run.take("a", NodeEnd{1, {}, false, ""}),
              ElementsAre(StartsWith("say: forming the run again: 2 of 2 nodes"),
                          "round 2 after 1: one@0 three@1 of 2"));
  run.lost("c");
  EXPECT_THAT(run.take("a", NodeEnd{2, {}, false, ""}),
              ElementsAre("end 1: the node three is lost: it sends no heartbeat"))
      << "no spare is left";
}

TEST(Coordinator, EndsWhenANodeIsStopped) {
  Nodes run(limits(2, 2), {3, false, seconds(1)}, node("one", 1, 0));
  run.take("b", node("two", 1, 1));
  EXPECT_THAT(run.take("b", NodeEnd{1, 15, false, ""}),
              ElementsAre("end 143: the node two was stopped by SIGTERM"));
  EXPECT_THAT(run.take("a", NodeEnd{1, {}, false, ""}), IsEmpty());

  Nodes waiting(limits(3, 3), {}, node("one", 1, 0));
  waiting.take("b", node("two", 1, 1));
  EXPECT_THAT(waiting.take("b", Leave{2}), ElementsAre("end 130: the node two was stopped by SIGINT"));
}

TEST(Coordinator, ContinuesWithoutAWaitingNodeThatIsStopped) {
  Nodes run(limits(1, 2), {}, node("one", 1));
  run.tick(seconds(5));
  run.take("b", node("two", 1));
  EXPECT_THAT(run.take("b", Leave{2}), ElementsAre("say: the node two has left the run"));
  run.take("b", node("two", 1));
  EXPECT_THAT(run.take("b", Leave{SIGUSR1}), ElementsAre("say: the node two has left the run"));
  EXPECT_THAT(run.take("a", NodeEnd{1, {}, false, ""}), ElementsAre("end 0: "));
}

TEST(Coordinator, NamesNoHostInARunOfOneNode) {
  Nodes run(limits(1, 1), {1, false, seconds(2)}, node("one", 2));
  EXPECT_THAT(run.tick(seconds(0)), ElementsAre("round 1 after 0: one@0 of 2"));
  run.take("a", NodeFailed{1, 1, Exited{7}, {}});
  EXPECT_THAT(run.take("a", NodeEnd{1, {}, false, "exited with code 7\n  its logs", 1}),
              ElementsAre("warn: rank 1 exited with code 7\n  its logs",
                          "say: restarting all ranks in 2 s (restart 1 of 1)"));
  EXPECT_THAT(run.tick(seconds(2)), ElementsAre("round 2 after 1: one@0 of 2"));
  EXPECT_THAT(run.take("a", NodeEnd{2, 15, false, ""}), ElementsAre("end 143: "));
}

TEST(Coordinator, ExitsWith75IfANodeIsPreemptedWhileNoRanksTrain) {
  const std::string for_later = "end 75: " + std::string(kEndedForLaterText);
  const RestartPolicy keeps{1, false, seconds(2), true};
  Nodes gathering(limits(3, 3), keeps, node("one", 1, 0));
  gathering.take("b", node("two", 1, 1));
  EXPECT_THAT(gathering.take("b", Leave{SIGUSR1}), ElementsAre(for_later));

  Nodes failing(limits(2, 2), keeps, node("one", 1, 0));
  failing.take("b", node("two", 1, 1));
  failing.take("b", NodeFailed{1, 1, Exited{7}, 5});
  failing.take("b", NodeEnd{1, {}, true, ""});
  EXPECT_THAT(failing.take("a", NodeEnd{1, {}, false, ""}),
              ElementsAre("warn: rank 1 on two exited with code 7", for_later));

  Nodes losing(limits(1, 2), keeps, node("one", 1));
  losing.take("b", node("two", 1));
  losing.lost("b");
  EXPECT_THAT(losing.take("a", NodeEnd{1, {}, true, ""}), ElementsAre(for_later));

  Nodes without(limits(1, 2), {}, node("one", 1));
  without.take("b", node("two", 1));
  without.lost("b");
  EXPECT_THAT(without.take("a", NodeEnd{1, {}, true, ""}),
              ElementsAre(StartsWith("say: forming the run again: 1 of 2 nodes")))
      << "its ranks keep no checkpoints";
}

TEST(NodeMessages, AreReadAsTheyWereWritten) {
  const auto up = [](Up said) { return to_line(*up_of(said.node, to_line(said))); };
  NodeHello hello = node("one", 2, 3);
  EXPECT_EQ(up({"a", hello}), to_line(Up{"a", hello}));
  EXPECT_EQ(up_of("a", to_line(Up{"b", hello}))->node, "a") << "as the connection says";
  for (const Outcome& outcome :
       {Outcome(Exited{7}), Outcome(Signalled{9, true}), Outcome(Stuck{2.5}), Outcome(Stuck{2.5, true})}) {
    const auto read = up_of("a", to_line(Up{"a", NodeFailed{2, 5, outcome, 12}}));
    ASSERT_TRUE(read);
    EXPECT_EQ(std::get<NodeFailed>(read->what).outcome, outcome);
    EXPECT_EQ(std::get<NodeFailed>(read->what).step, 12);
  }
  EXPECT_EQ(up({"a", Seated{2}}), to_line(Up{"a", Seated{2}}));
  EXPECT_EQ(up({"a", NodePace{2, 5, 0.25}}), to_line(Up{"a", NodePace{2, 5, 0.25}}));
  EXPECT_EQ(up({"a", NodeEnd{2, {}, false, "", {}, {}, 7}}),
            to_line(Up{"a", NodeEnd{2, {}, false, "", {}, {}, 7}}));
  EXPECT_EQ(up({"a", NodeEnd{2, 15, true, "fell\n  over", 1, 7}}),
            to_line(Up{"a", NodeEnd{2, 15, true, "fell\n  over", 1, 7}}));
  const auto end = [](const NodeEnd& said) {
    return std::get<NodeEnd>(up_of("a", to_line(Up{"a", said}))->what);
  };
  EXPECT_EQ(end({2, {}, false, "fell", 1}).failed_rank, 1);
  EXPECT_FALSE(end({2, {}, false, ""}).failed_rank);
  EXPECT_TRUE(end({2, {}, true, ""}).warned);
  const Seat seat{2, 1, 1, 2, 2, 3, "a", "h"};
  EXPECT_EQ(to_line(*down_of(to_line(Down(seat)))), to_line(Down(seat)));
  hello.last_round = 7;
  EXPECT_EQ(up({"a", hello}), to_line(Up{"a", hello}));
  Succession succession = taken_over(3).from;
  succession.successors = {{"b", "two", "10.0.0.2"}, {"c", "three", "fd00::3"}};
  EXPECT_EQ(to_line(*down_of(to_line(Down(succession)))), to_line(Down(succession)));
  EXPECT_EQ(to_line(*down_of(to_line(Down(Succession{1})))), to_line(Down(Succession{1})));
  for (const std::string rubbish :
       {"", "{", "[]", "7", "{\"is\":\"seat\"}", "{\"is\":7}", "GET / HTTP/1.1", "\xff\xfe"}) {
    EXPECT_FALSE(up_of("a", rubbish)) << rubbish;
    EXPECT_FALSE(down_of(rubbish)) << rubbish;
  }
}

TEST(NodeMessages, AreRefusedWithOutOfRangeNumbers) {
  const std::string hello = R"({"is":"hello","host":"h","config":{},"ranks":)";
  ASSERT_TRUE(up_of("a", hello + "2}"));
  for (const char* const ranks :
       {"0", "-1", "1.5", "true", "\"2\"", "65537", "4294967298", "18446744073709551615", "1e300", "null"})
    EXPECT_FALSE(up_of("a", hello + ranks + "}")) << ranks;
  const std::string leave = R"({"is":"leave","signal":)";
  ASSERT_TRUE(up_of("a", leave + "15}"));
  for (const char* const signal : {"0", "65", "2147483647"})
    EXPECT_FALSE(up_of("a", leave + signal + "}")) << signal;
  const std::string pace = R"({"is":"pace","round":1,"rank":0,"busy":)";
  ASSERT_TRUE(up_of("a", pace + "1}"));
  for (const char* const busy : {"1.01", "-0.1", "null", "\"1\""})
    EXPECT_FALSE(up_of("a", pace + busy + "}")) << busy;
  const std::string seat =
      R"({"is":"seat","round":1,"restarts":0,"nodes":2,"world_size":3,"launch":"a","main_host":"h",)";
  ASSERT_TRUE(down_of(seat + R"("node":1,"first_rank":2})"));
  for (const char* const place :
       {R"("node":2,"first_rank":2})", R"("node":-1,"first_rank":2})", R"("node":1,"first_rank":3})",
        R"("node":1,"first_rank":-1})", R"("node":1})"})
    EXPECT_FALSE(down_of(seat + place)) << place;
  const std::string succession =
      R"({"is":"succession","restarts":0,"host":"h","launch":"a","successors":[],)";
  ASSERT_TRUE(down_of(succession + R"("round":1,"members":2,"failures":0})"));
  EXPECT_FALSE(down_of(succession + R"("round":1,"members":2,"failures":1})")) << "which failed?";
  for (const char* const part :
       {R"("round":0,"members":2,"failures":0})", R"("round":2147483647,"members":2,"failures":0})",
        R"("round":1,"members":0,"failures":0})", R"("round":1,"members":2,"failures":1048577})"})
    EXPECT_FALSE(down_of(succession + part)) << part;
  EXPECT_FALSE(up_of("a", hello + R"(2,"last_round":2147483647})"));
  EXPECT_FALSE(down_of(R"({"is":"port","round":1,"port":65536})"));
  EXPECT_FALSE(down_of(R"({"is":"end_run","exit_code":256,"why":""})"));
}

TEST(NodeMessages, AreRefusedIfTooLongOrTooDeep) {
  const std::string say = R"({"is":"say","warning":false,"text":")";
  ASSERT_TRUE(down_of(say + std::string(kLongestMessageBytes / 2, 'x') + "\"}"));
  EXPECT_FALSE(down_of(say + std::string(kLongestMessageBytes, 'x') + "\"}"));
  const std::string deep = R"({"is":"say","warning":false,"text":"x","more":)" + std::string(3'000'000, '[');
  EXPECT_FALSE(down_of(deep + std::string(3'000'000, ']') + "}"));
  EXPECT_FALSE(up_of("a", deep));
}

}  // namespace
}  // namespace hookline
