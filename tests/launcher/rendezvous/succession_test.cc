// Runs that lose the node at which the others meet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/rendezvous/node_runs.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Successors : public Nodes {
 protected:
  /// Launchers on all three hosts.
  std::vector<std::unique_ptr<Process>> launch_all(std::vector<std::string> sets,
                                                   const std::vector<std::string>& program) {
    std::vector<std::unique_ptr<Process>> nodes;
    sets.emplace_back();
    for (int i = 0; i < 3; ++i) {
      sets.back() = rank(i);
      nodes.push_back(launch(i, sets, program));
    }
    return nodes;
  }

  /// The same, once their ranks run.
  std::vector<std::unique_ptr<Process>> run(const std::vector<std::string>& sets,
                                            const std::vector<std::string>& program = {"./train"}) {
    auto nodes = launch_all(sets, program);
    EXPECT_TRUE(there("here0-of-3-restart0") && there("here1-of-3-restart0") && there("here2-of-3-restart0"));
    return nodes;
  }

  /// Expects the second and the third node to begin another attempt, and to end well.
  std::pair<ProcessResult, ProcessResult> end_of_second_attempt(
      const std::vector<std::unique_ptr<Process>>& nodes) {
    EXPECT_TRUE(there("here0-of-2-restart1") && there("here1-of-2-restart1"))
        << nodes[1]->err() << nodes[2]->err();
    let_all_exit(0);
    std::pair<ProcessResult, ProcessResult> results{nodes[1]->wait(), nodes[2]->wait()};
    EXPECT_EQ(results.first.exit_code, 0) << results.first.err;
    EXPECT_EQ(results.second.exit_code, 0) << results.second.err;
    return results;
  }
};

TEST_F(Successors, ContinueWithoutTheLauncherThatTheyMetAt) {
  const auto nodes = run({"launch.nnodes=2:3"});
  nodes[0]->signal(SIGKILL);
  const auto [second, third] = end_of_second_attempt(nodes);
  const auto gone = AllOf(HasSubstr("hookline: warning: the node at " + Hosts::address(0) + ":29500 (" +
                                    testing::host_name() + "), "),
                          HasSubstr(" is gone ("));
  EXPECT_THAT(second.err, AllOf(gone, HasSubstr("); this node takes the place of "),
                                HasSubstr(", at " + Hosts::address(1) + ":29500\n")));
  EXPECT_THAT(third.err, AllOf(gone, HasSubstr("); the nodes meet again at "),
                               HasSubstr(", at " + Hosts::address(1) + ":29500\n")));
  EXPECT_THAT(second.out, HasSubstr("[0] rank 0 of 2, restart 1, at " + Hosts::address(1) + "\n"));
  EXPECT_THAT(third.out, HasSubstr("[1] rank 1 of 2, restart 1, at " + Hosts::address(1) + "\n"));
}

TEST_F(Successors, EndWithHalfOfTheNodesThoughASpareIsThere) {
  const std::vector<std::string> kSpare = {"launch.nnodes=2+1", "launch.grace_period_seconds=0.5",
                                           "rendezvous.node_timeout_seconds=2"};
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, kSpare));
  ASSERT_TRUE(there("here0-of-2-restart0") && there("here1-of-2-restart0"));
  nodes.push_back(launch(2, kSpare));
  ASSERT_TRUE(nodes[2]->wait_for("waits as a spare"));
  nodes[0]->signal(SIGKILL);
  // The second has half of the last attempt's nodes: the first might run on with the spare.
  for (int i = 1; i < 3; ++i) {
    const ProcessResult result = nodes[static_cast<std::size_t>(i)]->wait();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, AllOf(HasSubstr("the node at " + Hosts::address(0) + ":29500 (" +
                                            testing::host_name() + "), "),
                                  HasSubstr("hookline: error: 1 of the 2 nodes of the last attempt ")));
  }
}

TEST_F(Successors, ContinueOnOneSideOfACutNetworkOnly) {
  const auto nodes = run({"launch.nnodes=2:3"});
  hosts_.cut(0);
  ASSERT_TRUE(there("here0-of-2-restart1") && there("here1-of-2-restart1"))
      << nodes[1]->err() << nodes[2]->err();
  const ProcessResult alone = nodes[0]->wait();
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_THAT(alone.err, AllOf(HasSubstr("hookline: forming the run again: 1 of 3 nodes, too few "),
                               HasSubstr("hookline: error: 1 of the 3 nodes of the last attempt ")));
  let_all_exit(0);
  for (int i = 1; i < 3; ++i) {
    const ProcessResult result = nodes[static_cast<std::size_t>(i)]->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
}

TEST_F(Successors, ThatCannotTakeThePlaceLeaveItToTheNext) {
  const auto nodes = run({"launch.nnodes=2:3"});
  // Something else has the port of the run on the first successor's host.
  ProcessOptions options;
  options.arguments = {"-c",
                       "import socket, sys, time\n"
                       "s = socket.socket()\n"
                       "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
                       "s.bind(('" +
                           Hosts::address(1) +
                           "', 29500))\n"
                           "s.listen()\n"
                           "print('listening', file=sys.stderr, flush=True)\n"
                           "time.sleep(600)\n"};
  const auto other = hosts_.start(1, "/usr/bin/python3", options);
  ASSERT_TRUE(other->wait_for("listening")) << other->err();
  nodes[0]->signal(SIGKILL);
  const auto [second, third] = end_of_second_attempt(nodes);
  EXPECT_THAT(second.err, HasSubstr("hookline: warning: this node can't take over: the port 29500 is taken"));
  EXPECT_THAT(third.err, AllOf(HasSubstr(" can't be reached: "),
                               HasSubstr("hookline: warning: this node takes the place of "),
                               HasSubstr(", at " + Hosts::address(2) + ":29500\n")));
  other->signal(SIGKILL);
  other->wait();
}

TEST_F(Successors, ContinueIfTheLauncherIsKilledBetweenAttempts) {
  const auto nodes = run({"launch.nnodes=2:3", "launch.max_restarts=1", "launch.restart_delay_seconds=600"});
  folder_.write("exit2-0", "7");
  ASSERT_TRUE(nodes[1]->wait_for("restarting all ranks in 600 s"));
  nodes[0]->signal(SIGKILL);
  end_of_second_attempt(nodes);
}

TEST_F(Successors, ContinueIfTheLauncherIsKilledWhileRanksStop) {
  folder_.write("stubborn", "#!/bin/sh\ntrap '' TERM\n. ./train\n", true);
  const auto nodes =
      run({"launch.nnodes=2:3", "launch.max_restarts=1", "launch.grace_period_seconds=2"}, {"./stubborn"});
  folder_.write("exit2-0", "7");
  ASSERT_TRUE(nodes[1]->wait_for("stopping this node's ranks: ")) << nodes[1]->err();
  nodes[0]->signal(SIGKILL);
  end_of_second_attempt(nodes);
}

TEST_F(Successors, EndIfTheSecondLauncherIsKilledToo) {
  const auto nodes = run({"launch.nnodes=2:3"});
  nodes[0]->signal(SIGKILL);
  ASSERT_TRUE(there("here0-of-2-restart1") && there("here1-of-2-restart1"))
      << nodes[1]->err() << nodes[2]->err();
  nodes[1]->signal(SIGKILL);
  const ProcessResult last = nodes[2]->wait();
  EXPECT_EQ(last.exit_code, 1);
  EXPECT_THAT(last.err, HasSubstr("the node at " + Hosts::address(1) + ":29500 (" + testing::host_name() +
                                  "), which the others meet at, is gone"));
}

TEST_F(Nodes, EndWithoutTheLauncherThatTheyMeetAtIfNoneHaveStarted) {
  const auto first = launch(0, {"launch.nnodes=2:3", "rendezvous.last_call_seconds=600"});
  const auto second = launch(1, {"launch.nnodes=2:3", "rendezvous.last_call_seconds=600"});
  ASSERT_TRUE(second->wait_for(" joined: 2 of 3 nodes\n"));
  first->signal(SIGKILL);
  const ProcessResult result = second->wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("hookline: error: the node at " + Hosts::address(0) + ":29500, "),
                                HasSubstr(" is gone (it has closed the connection, "),
                                HasSubstr(": the run can't continue without it\n")));
}

// The second launcher has then either been told of the end, or it has lost the first.
TEST_F(Nodes, EndInADefinedWayIfTheFirstLauncherIsKilledAtTheEndOfTheRun) {
  for (const int milliseconds : {0, 10, 20, 40, 80}) {
    const std::string exit = "exit" + std::to_string(milliseconds);
    folder_.write("train",
                  "#!/bin/sh\n>here$RANK-" + exit + "\nuntil [ -e " + exit + " ]; do sleep 0.01; done\n",
                  true);
    const auto first = launch(0, {"launch.nnodes=2", rank(0)}),
               second = launch(1, {"launch.nnodes=2", rank(1)});
    ASSERT_TRUE(there("here0-" + exit) && there("here1-" + exit)) << second->err();
    const pid_t relay = relay_of(*first);
    ASSERT_NE(relay, 0);
    folder_.write(exit, "");
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    first->signal(SIGKILL);
    const ProcessResult last = second->wait();
    const auto lost = HasSubstr("), which the others meet at, is gone (");
    if (last.exit_code == 0)
      EXPECT_THAT(last.err, ::testing::Not(lost)) << milliseconds << " ms";
    else
      EXPECT_THAT(last.err, lost) << milliseconds << " ms";
    EXPECT_LE(last.exit_code, 1) << milliseconds << " ms: " << last.err;
    ASSERT_TRUE(eventually([&] { return !testing::is_running(relay); })) << "the next one takes its port";
  }
}

TEST_F(Successors, HeedASignalThatComesWhileTheirRanksStop) {
  folder_.write("stubborn", "#!/bin/sh\ntrap '' TERM\n. ./train\n", true);
  const auto nodes = run({"launch.nnodes=2:3", "launch.grace_period_seconds=3"}, {"./stubborn"});
  nodes[0]->signal(SIGKILL);
  ASSERT_TRUE(nodes[1]->wait_for("stopping this node's ranks: the node at")) << nodes[1]->err();
  nodes[1]->signal(SIGTERM);
  const ProcessResult second = nodes[1]->wait();
  EXPECT_EQ(second.exit_code, 128 + SIGTERM) << second.err;
  EXPECT_EQ(nodes[2]->wait().exit_code, 1);
}

TEST_F(Successors, ResumeFromTheCheckpoint) {
  const auto nodes =
      launch_all({"launch.nnodes=2:3", "training.checkpoint_every_steps=1", "training.max_steps=600"},
                 {RESUMING_RANK_PROGRAM, "500"});
  ASSERT_TRUE(there("checkpoints/step_00000005"));
  hosts_.unplug(0);
  const ProcessResult second = nodes[1]->wait(), third = nodes[2]->wait();
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(third.exit_code, 0) << third.err;
  EXPECT_THAT(second.err, HasSubstr("hookline: resuming from step "));
  EXPECT_THAT(second.out, HasSubstr("[0] ended at step 600: "));
  EXPECT_THAT(third.out, HasSubstr("[1] ended at step 600: "));
  nodes[0]->signal(SIGTERM);
  nodes[0]->wait();
}

TEST_F(Nodes, EndIfTheirOwnRelayIsKilled) {
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, {"launch.nnodes=1:2", rank(i)}));
  ASSERT_TRUE(there("here0-of-2-restart0") && there("here1-of-2-restart0"));
  const pid_t relay = relay_of(*nodes[1]);
  ASSERT_NE(relay, 0);
  ::kill(relay, SIGKILL);
  const ProcessResult second = nodes[1]->wait();
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, AllOf(HasSubstr("hookline: error: this node can't continue in the run: '"),
                                HasSubstr("node_relay', which talks to the other nodes, has ended\n")));
  ASSERT_TRUE(there("here0-of-1-restart1")) << nodes[0]->err();
  let_all_exit(0);
  EXPECT_EQ(nodes[0]->wait().exit_code, 0);
}

}  // namespace
}  // namespace hookline
