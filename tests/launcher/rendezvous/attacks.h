// What strangers and broken networks try on a run of several nodes, and what comes of it: the rows of the
// table in docs/explanations/security.md, each with the tests that show it.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace hookline {

struct Attack {
  std::string promise, attack, result;
  std::vector<std::string> tests;  // "Suite.Case"
};

inline const std::vector<Attack>& attacks() {
  static const std::vector<Attack> kAttacks = {
      {"a stranger learns nothing",
       "recording what two nodes say, both ways",
       "everything is encrypted",
       {"Strangers.WhoReplayWhatTheyRecordedChangeNothing"}},
      {"",
       "reading the token in command lines, logs, configs, run folders or environments of processes",
       "it is not there; and the process that keeps it writes no core file",
       {"Strangers.FindTheTokenNowhere"}},
      {"",
       "looking for a store while a C++ program trains on two hosts, or a Python program on one",
       "no store listens on all addresses of a host; `node_relay` listens at `main_port` alone, or at "
       "127.0.0.1",
       {"Nodes.LetNoStoreOfTheRanksListenOnTheNetwork", "Nodes.ServeAPythonProgramOnOneHostAtLoopbackAlone"}},
      {"",
       "counting the packets that leave a host during a run on that host alone",
       "none does",
       {"Nodes.SendNothingToOtherHostsFromARunOnOne"}},
      {"a stranger changes nothing, while the run forms and while it trains",
       "HTTP, TLS, noise, a broken handshake, a frame of almost 2^63 bytes",
       "dropped; the answer is libzmq's greeting at most",
       {"Strangers.WithGarbageChangeNothing"}},
      {"",
       "a client of c10d's TCPStore at the meeting place",
       "fails; what the nodes say arrives",
       {"LauncherStore.IsNotReachedByATcpStoreAtTheMeetingPlace"}},
      {"",
       "a launcher, or libzmq's own client, with another token",
       "refused, and logged with the host's address; the launcher says what it needs",
       {"Strangers.WithAnotherTokenAreRefused", "Strangers.ALauncherWithAnotherTokenSaysWhatItNeeds",
        "Strangers.AreAllOtherUsersIfNoTokenIsGiven", "Strangers.StayOutOfAnInsecureRunThatHasAToken"}},
      {"",
       "a client that knows the public key of the serving side, but not the token",
       "refused",
       {"Strangers.WhoKnowOnlyThePublicKeyAreRefused"}},
      {"",
       "a client without encryption",
       "refused without an answer",
       {"Strangers.WithoutEncryptionGetNoAnswer"}},
      {"",
       "replaying what a node has said, in the same run or in a later one of the same token",
       "dropped",
       {"Strangers.WhoReplayWithinTheRunChangeNothing", "Strangers.WhoReplayWhatTheyRecordedChangeNothing"}},
      {"",
       "leading a node to another run of the same token",
       "refused: its keys are for another meeting place",
       {"Strangers.WhoLeadANodeToAnotherRunOfItsTokenAreDropped"}},
      {"",
       "a third host connects to the store of a script on two hosts",
       "closed without an answer, and logged once",
       {"Nodes.GiveAPythonScriptAStoreThatOnlyTheirHostsReach"}},
      {"",
       "another user of a host connects to the socket of its C++ ranks",
       "closed without an answer",
       {"RankConnections.TakeNoProcessOfAnotherUser"}},
      {"a run forms, no matter who else connects",
       "10,000 short connections; 3,000 that stay idle; 200 that send a byte every 50 ms",
       "the run forms",
       {"Strangers.WithTenThousandConnectionsDoNotKeepNodesOut",
        "Strangers.WithThousandsOfIdleConnectionsDoNotKeepNodesOut",
        "Strangers.WhoSendByteByByteDoNotKeepNodesOut"}},
      {"",
       "a connection over which nothing comes",
       "closed after 3 seconds",
       {"Strangers.WhoSayNothingAreDisconnected"}},
      {"",
       "listening at the address before the run starts",
       "the launcher says so, and joins once the run is there",
       {"Strangers.WhoListenedThereBeforeDoNotKeepNodesOut"}},
      {"whoever holds the token does not crash a run by mistake",
       "nonsense, broken JSON, messages that are too long",
       "ignored, with one warning",
       {"Strangers.WhoHoldTheTokenAndSendNonsenseAreIgnored"}},
      {"",
       "messages of a node that name programs, arguments and files",
       "the node is refused; nothing of it is run or opened",
       {"Strangers.WhoHoldTheTokenAndNameAProgramRunNothing"}},
      {"runs do not mix",
       "a second run at the same address",
       "refused on both sides, with what differs",
       {"Strangers.OfASecondRunAtTheAddressAreRefused", "Nodes.SayWhyTheRendezvousFails"}},
      {"",
       "one launcher more than a fixed `nnodes`",
       "refused, with the names of those that are in",
       {"Nodes.RefuseOneMoreThanAFixedNumber"}},
      {"",
       "hosts with IPv4 and hosts with IPv6 addresses",
       "refused, with both addresses",
       {"Nodes.SayThatTheyHaveAddressesOfTwoFamilies"}},
      {"a broken network does not break the run",
       "resetting a node's connections",
       "made anew; nothing that the nodes said is lost",
       {"Strangers.WhoCutConnectionsDoNotEndTheRun"}},
      {"",
       "cutting a host off for over half of `node_timeout_seconds`, twice",
       "the run continues",
       {"Nodes.ContinueAfterACutThatHeals"}},
      {"",
       "losing one of ten packets, or setting the hosts' clocks a year ahead and back",
       "the run continues",
       {"Nodes.TrainThoughPacketsAreLost", "Nodes.ContinueWhenTheClockIsSet"}},
      {"a coordinator that is lost ends the run or leaves it to one other, and never to two",
       "killing its launcher while nodes join, while ranks run, while they stop, or between two attempts",
       "with `nnodes = \"2:3\"` the others continue, once they have started; with a fixed number all end",
       {"Nodes.EndWithoutTheLauncherThatTheyMeetAtIfNoneHaveStarted",
        "Successors.ContinueWithoutTheLauncherThatTheyMetAt",
        "Successors.ContinueIfTheLauncherIsKilledWhileRanksStop",
        "Successors.ContinueIfTheLauncherIsKilledBetweenAttempts",
        "Nodes.EndWithoutTheLauncherThatTheyMeetAtIfTheirNumberIsFixed",
        "Strangers.NodesLearnAtOnceThatTheCoordinatorWasKilled"}},
      {"",
       "killing the one that took its place, too",
       "the last one of three ends",
       {"Successors.EndIfTheSecondLauncherIsKilledToo"}},
      {"",
       "cutting the node at `main_address` off from two others",
       "the two continue with one of them in its place, and the first ends; with a fixed number all end",
       {"Successors.ContinueOnOneSideOfACutNetworkOnly",
        "Nodes.EndIfTheHostThatTheyMeetAtIsCutOffAndTheirNumberIsFixed"}},
      {"",
       "starting a launcher again where the coordinator was",
       "the nodes of the last run end",
       {"Strangers.ALauncherThatIsStartedAgainDoesNotLeaveTheLastRunsNodesWaiting"}},
  };
  return kAttacks;
}

/// The table as the page has it.
inline std::string table_of_attacks() {
  std::ostringstream table;
  table << "| promise | attack | what comes of it | tests |\n|---|---|---|---|\n";
  for (const Attack& each : attacks()) {
    table << "| " << each.promise << (each.promise.empty() ? "" : " ") << "| " << each.attack << " | "
          << each.result << " |";
    const char* separator = " ";
    for (const std::string& test : each.tests) {
      table << separator << "`" << test << "`";
      separator = ", ";
    }
    table << " |\n";
  }
  return table.str();
}

/// Expects each test of these suites that a row names to be in this program; returns them.
inline std::set<std::string> expect_to_have_the_tests_of_attacks(const std::set<std::string>& suites) {
  std::set<std::string> here, named;
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j)
      here.insert(std::string(suite.name()) + "." + suite.GetTestInfo(j)->name());
  }
  for (const Attack& each : attacks())
    for (const std::string& test : each.tests)
      if (suites.contains(test.substr(0, test.find('.')))) named.insert(test);
  for (const std::string& test : named) EXPECT_TRUE(here.contains(test)) << test << " is not there";
  return named;
}

}  // namespace hookline
