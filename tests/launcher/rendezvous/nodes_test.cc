// Runs of several nodes: hosts as network namespaces that share a file system.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/rendezvous/attacks.h"
#include "launcher/rendezvous/node_runs.h"
#include "support/hosts.h"
#include "support/process.h"
#include "support/sanitized.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::read_file;

TEST(NodesAndSuccessors, HaveTheTestsOfTheTableOfAttacks) {
  EXPECT_GE(expect_to_have_the_tests_of_attacks({"Nodes", "Successors"}).size(), 15U);
}

TEST_F(Nodes, RunTheirShareOfTheRanks) {
  const auto one = launch(0, {"launch.nnodes=3", rank(0), "launch.processes_per_node=2"});
  const auto two = launch(1, {"launch.nnodes=3", rank(1)});
  const auto three = launch(2, {"launch.nnodes=3", rank(2)});
  ASSERT_TRUE(there("here3-of-4-restart0") && there("here0-of-4-restart0"));
  let_all_exit(0);
  const ProcessResult first = one->wait(), second = two->wait(), third = three->wait();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(third.exit_code, 0) << third.err;
  const std::string here = testing::host_name();
  EXPECT_THAT(first.err, HasSubstr("hookline: 4 ranks on 3 nodes: " + here + " (2), " + here + " (1) and " +
                                   here + " (1)\n"));
  EXPECT_THAT(second.err, HasSubstr("hookline: 4 ranks on 3 nodes: this is node 1, with rank 2\n"));
  EXPECT_THAT(first.out, AllOf(HasSubstr("[0] rank 0 of 4, restart 0, at " + Hosts::address(0) + "\n"),
                               HasSubstr("[1] rank 1 of 4, ")));
  EXPECT_THAT(second.out, HasSubstr("[2] rank 2 of 4, "));
  EXPECT_THAT(third.out, HasSubstr("[3] rank 3 of 4, "));
  EXPECT_THAT(read_file(folder_.path() / "runs2/latest/attempt_0/3/stdout.log"), HasSubstr("rank 3 of 4"));
}

TEST_F(Nodes, ExitTogetherWithTheCodeOfTheRankThatFailed) {
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 3; ++i) nodes.push_back(launch(i, {"launch.nnodes=3", rank(i)}));
  ASSERT_TRUE(there("here0-of-3-restart0") && there("here1-of-3-restart0") && there("here2-of-3-restart0"));
  folder_.write("exit2-0", "7");
  for (int i = 0; i < 3; ++i) {
    const ProcessResult result = nodes[static_cast<std::size_t>(i)]->wait();
    EXPECT_EQ(result.exit_code, 7) << result.err;
    EXPECT_THAT(result.err, HasSubstr("hookline: error: rank 2 on "));
    // All nodes name the logs' location.
    EXPECT_THAT(result.err,
                HasSubstr(" exited with code 7\n  it wrote nothing to standard error\n  its logs on "));
    EXPECT_THAT(result.err, HasSubstr("runs2/"));
    if (i != 2) {
      EXPECT_THAT(result.err, HasSubstr("warning: stopping this node's ranks: rank 2 on "));
    }
  }
}

TEST_F(Nodes, WarnOnceOfSettingsThatNoRankHasRead) {
  folder_.write("exit", "0");
  std::vector<std::unique_ptr<Process>> nodes;
  for (int host = 0; host < 2; ++host)
    nodes.push_back(launch(host, {"launch.nnodes=2", "ddp.comm_hook=fp16"}));
  const ProcessResult first = nodes[0]->wait(), second = nodes[1]->wait();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err,
              AllOf(HasSubstr("warning: './train' is a script"), HasSubstr("warning: no rank has read")));
  EXPECT_THAT(second.err, Not(HasSubstr("fp16"))) << "the first node speaks for all";

  // A rank that uses the library reads the settings.
  nodes.clear();
  for (int host = 0; host < 2; ++host)
    nodes.push_back(launch(host, {"launch.nnodes=2", "ddp.comm_hook=fp16", "training.max_steps=3"},
                           {RESUMING_RANK_PROGRAM}));
  for (const auto& node : nodes) EXPECT_THAT(node->wait().err, Not(HasSubstr("no rank has read")));
  for (const std::string runs : {"runs0", "runs1"})
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / runs / "latest/config_read"));
}

TEST_F(Nodes, RestartTogether) {
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 2; ++i)
    nodes.push_back(launch(i, {"launch.nnodes=2", rank(i), "launch.max_restarts=1"}));
  ASSERT_TRUE(there("here0-of-2-restart0") && there("here1-of-2-restart0"));
  folder_.write("exit1-0", "7");
  ASSERT_TRUE(there("here0-of-2-restart1") && there("here1-of-2-restart1"));
  let_all_exit(0);
  for (const auto& node : nodes) {
    const ProcessResult result = node->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("restarting all ranks in 0.1 s (restart 1 of 1)\n"));
  }
}

TEST_F(Nodes, FormAgainWithoutAHostThatIsCutOff) {
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 3; ++i) nodes.push_back(launch(i, {"launch.nnodes=2:3"}));
  ASSERT_TRUE(there("here0-of-3-restart0") && there("here1-of-3-restart0") && there("here2-of-3-restart0"));
  hosts_.cut(2);
  ASSERT_TRUE(there("here0-of-2-restart1") && there("here1-of-2-restart1"));
  const ProcessResult cut = nodes[2]->wait();
  EXPECT_EQ(cut.exit_code, 1);
  EXPECT_THAT(cut.err, AllOf(HasSubstr("hookline: warning: the node at " + Hosts::address(0) + ":29500 (" +
                                       testing::host_name() + "), "),
                             HasSubstr(" is gone (it has not answered for "),
                             HasSubstr("hookline: error: 1 of the 3 nodes of the last attempt ")));
  let_all_exit(0);
  for (int i = 0; i < 2; ++i) {
    const ProcessResult result = nodes[static_cast<std::size_t>(i)]->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("is lost: it sends no heartbeat\n"));
  }
}

TEST_F(Nodes, FormAgainWithoutALauncherThatIsKilled) {
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 3; ++i) nodes.push_back(launch(i, {"launch.nnodes=2:3"}));
  ASSERT_TRUE(there("here0-of-3-restart0") && there("here1-of-3-restart0") && there("here2-of-3-restart0"));
  nodes[1]->signal(SIGKILL);
  const ProcessResult killed = nodes[1]->wait();
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL);
  EXPECT_THAT(killed.err, Not(HasSubstr("can't reach the other nodes")));
  ASSERT_TRUE(there("here0-of-2-restart1") && there("here1-of-2-restart1"));
  let_all_exit(0);
  EXPECT_EQ(nodes[0]->wait().exit_code, 0);
  EXPECT_EQ(nodes[2]->wait().exit_code, 0);
}

TEST_F(Nodes, EndOnceALossLeavesThemWhereTheyWereBefore) {
  folder_.write("stuck", "#!/bin/bash\necho rank=$RANK step=5 >&$HOOKLINE_STATUS_FD\nexec ./train\n", true);
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 3; ++i) nodes.push_back(launch(i, {"launch.nnodes=1:3", rank(i)}, {"./stuck"}));
  ASSERT_TRUE(there("here0-of-3-restart0") && there("here1-of-3-restart0") && there("here2-of-3-restart0"));
  nodes[2]->signal(SIGKILL);
  ASSERT_TRUE(there("here0-of-2-restart1") && there("here1-of-2-restart1"));
  nodes[1]->signal(SIGKILL);
  const ProcessResult first = nodes[0]->wait();
  EXPECT_EQ(first.exit_code, 69) << first.err;
  EXPECT_THAT(first.err, AllOf(HasSubstr("is lost: it sends no heartbeat; "),
                               HasSubstr(" no further than step 5, which they had reached before, ")));
}

TEST_F(Nodes, AdmitALateHostWhenTheyFormAgain) {
  std::vector<std::unique_ptr<Process>> nodes;
  const std::vector<std::string> sets = {"launch.nnodes=2:3", "launch.max_restarts=1"};
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, sets));
  ASSERT_TRUE(there("here0-of-2-restart0") && there("here1-of-2-restart0"));
  nodes.push_back(launch(2, sets));
  EXPECT_TRUE(nodes[0]->wait_for("waits; it takes part"));
  folder_.write("exit1-0", "7");
  ASSERT_TRUE(there("here0-of-3-restart1") && there("here1-of-3-restart1") && there("here2-of-3-restart1"));
  let_all_exit(0);
  for (const auto& node : nodes) EXPECT_EQ(node->wait().exit_code, 0);
}

TEST_F(Nodes, WaitForANewcomerWhenTooFewAreLeft) {
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, {"launch.nnodes=2:3"}));
  ASSERT_TRUE(there("here0-of-2-restart0") && there("here1-of-2-restart0"));
  nodes[1]->signal(SIGKILL);
  ASSERT_TRUE(nodes[0]->wait_for("forming the run again: 1 of 3 nodes"));
  const auto newcomer = launch(2, {"launch.nnodes=2:3"});
  ASSERT_TRUE(there("here0-of-2-restart1") && there("here1-of-2-restart1"));
  let_all_exit(0);
  EXPECT_EQ(nodes[0]->wait().exit_code, 0);
  EXPECT_EQ(newcomer->wait().exit_code, 0);
}

TEST_F(Nodes, TakeBackANodeThatWasLost) {
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, {"launch.nnodes=2:3"}));
  ASSERT_TRUE(there("here0-of-2-restart0") && there("here1-of-2-restart0"));
  const pid_t relay = relay_of(*nodes[1]);
  ASSERT_NE(relay, 0);
  ::kill(relay, SIGSTOP);
  ASSERT_TRUE(nodes[0]->wait_for("forming the run again: 1 of 3 nodes")) << nodes[0]->err();
  ::kill(relay, SIGCONT);
  ASSERT_TRUE(there("here0-of-2-restart1") && there("here1-of-2-restart1")) << nodes[1]->err();
  let_all_exit(0);
  for (const auto& node : nodes) EXPECT_EQ(node->wait().exit_code, 0) << node->err();
  EXPECT_THAT(
      nodes[1]->err(),
      HasSubstr(
          "warning: stopping this node's ranks: the others have not heard from this node for too long\n"));
}

TEST_F(Nodes, ExitWith75IfPreemptedBeforeEnoughHaveJoined) {
  const std::vector<std::string> sets = {"launch.nnodes=3", "training.checkpoint_every_steps=1"};
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, sets));
  ASSERT_TRUE(nodes[0]->wait_for("joined: 2 of 3 nodes"));
  nodes[1]->signal(SIGUSR1);
  const ProcessResult first = nodes[0]->wait(), preempted = nodes[1]->wait();
  EXPECT_EQ(first.exit_code, 75) << first.err;
  EXPECT_THAT(first.err, HasSubstr("hookline: the run ends on SIGUSR1 "));
  EXPECT_EQ(preempted.exit_code, 75) << preempted.err;
  EXPECT_THAT(preempted.err,
              HasSubstr("hookline: this node leaves the run on SIGUSR1, while it runs no ranks\n"));
}

TEST_F(Nodes, ContinueWithoutASpareThatIsPreempted) {
  const std::vector<std::string> sets = {"launch.nnodes=2+1", "training.checkpoint_every_steps=1"};
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, sets));
  ASSERT_TRUE(there("here0-of-2-restart0") && there("here1-of-2-restart0"));
  nodes.push_back(launch(2, sets));
  ASSERT_TRUE(nodes[2]->wait_for("waits as a spare"));
  nodes[2]->signal(SIGUSR1);
  const ProcessResult spare = nodes[2]->wait();
  EXPECT_EQ(spare.exit_code, 75) << spare.err;
  EXPECT_THAT(spare.err, AllOf(HasSubstr("hookline: this node leaves the run on SIGUSR1, "),
                               Not(HasSubstr("the run ends"))));
  let_all_exit(0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(nodes[i]->wait().exit_code, 0);
}

TEST_F(Nodes, EndWithoutTheLauncherThatTheyMeetAtIfTheirNumberIsFixed) {
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 3; ++i) nodes.push_back(launch(i, {"launch.nnodes=3"}));
  ASSERT_TRUE(there("here0-of-3-restart0") && there("here1-of-3-restart0") && there("here2-of-3-restart0"));
  nodes[0]->signal(SIGKILL);
  for (int i = 1; i < 3; ++i) {
    const ProcessResult result = nodes[static_cast<std::size_t>(i)]->wait();
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(" meet at, is gone ("));
  }
}

TEST_F(Nodes, EndIfTheHostThatTheyMeetAtIsCutOffAndTheirNumberIsFixed) {
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, {"launch.nnodes=2", rank(i)}));
  ASSERT_TRUE(there("here0-of-2-restart0") && there("here1-of-2-restart0"));
  hosts_.cut(0);
  const ProcessResult other = nodes[1]->wait(), first = nodes[0]->wait();
  EXPECT_EQ(other.exit_code, 1) << other.err;
  EXPECT_THAT(other.err, HasSubstr(" meet at, is gone (it has not answered for "));
  EXPECT_EQ(first.exit_code, 1) << first.err;
  EXPECT_THAT(first.err, HasSubstr(" is lost: it sends no heartbeat"));
}

TEST_F(Nodes, StopTogetherWhenOneIsStopped) {
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, {"launch.nnodes=2", rank(i)}));
  ASSERT_TRUE(there("here0-of-2-restart0") && there("here1-of-2-restart0"));
  nodes[1]->signal(SIGINT);
  const ProcessResult stopped = nodes[1]->wait(), other = nodes[0]->wait();
  EXPECT_EQ(stopped.exit_code, 128 + SIGINT) << stopped.err;
  EXPECT_EQ(other.exit_code, 128 + SIGINT) << other.err;
  EXPECT_THAT(other.err, HasSubstr("was stopped by SIGINT\n"));
}

TEST_F(Nodes, SayWhyTheRendezvousFails) {
  const auto end_of = [&](int host, const std::vector<std::string>& sets) {
    return launch(host, sets)->wait();
  };
  const std::string at = Hosts::address(0) + ":29500";
  ProcessResult result = end_of(1, {"launch.nnodes=2", rank(0)});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "hookline: error: main_address '" + Hosts::address(0) +
                "' (from command line --set rendezvous.main_address) is not this host's, and node_rank is 0\n"
                "  addresses of this host: " +
                Hosts::address(1) + "\n");
  result = end_of(0, {"launch.nnodes=2", rank(0), "launch.join_timeout_seconds=0.5"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("hookline: error: 1 of 2 nodes is there after 0.5 s; missing: node_rank 1; "));
  result = end_of(1, {"launch.nnodes=2", rank(1), "launch.join_timeout_seconds=1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(
      result.err,
      HasSubstr("hookline: error: this node can't take part in the run: no node answers at " + at +
                ": see that 'hookline launch' runs there, and that main_address and main_port are the "
                "same on every node\n"));

  const auto first = launch(0, {"launch.nnodes=2", rank(0)});
  ASSERT_TRUE(first->wait_for("logs in"));
  result = end_of(1, {"launch.nnodes=2", rank(1), "rendezvous.run_id=mine"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, ContainsRegex("can't take part in the run: it differs [^\n]*:\n"
                                        "  rendezvous.run_id is \"auto\" on \\S+ and \"mine\" on \\S+\n"));
  EXPECT_TRUE(
      first->wait_for("hookline: warning: the node " + testing::host_name() + " was refused: it differs "));
  result = end_of(1, {"launch.nnodes=2", rank(1), "ddp.comm_hook=fp16"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("\n  ddp.comm_hook is \"no\" on "), HasSubstr(" and \"fp16\" on ")));
  for (const auto& [program, difference] : std::map<std::vector<std::string>, std::string>{
           {{"./train", "2"}, "\n  arguments is \\(none\\) on \\S+ and 2 on "},
           {{"/bin/true"}, "\n  program is train on \\S+ and true on "}}) {
    result = launch(1, {"launch.nnodes=2", rank(1)}, program)->wait();
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, ContainsRegex(difference));
  }
  for (const auto& [key, value] :
       {std::pair{"ddp.auto.allow", "low_rank"}, {"fsdp.sharding_strategy", "full_shard"}}) {
    result = end_of(1, {"launch.nnodes=2", rank(1), std::string(key) + "=" + value});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr("\n  " + std::string(key) + " is "), HasSubstr(value)));
  }
  result = end_of(1, {"launch.nnodes=2", rank(0)});
  EXPECT_EQ(result.exit_code, 2);
  result = end_of(0, {"launch.nnodes=2", rank(0)});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(
      result.err,
      HasSubstr("the port 29500 is taken on this host, by another program or by a node that has the same "
                "node_rank: set [rendezvous] main_port to a free one, on every node\n"));
  first->signal(SIGTERM);
  EXPECT_EQ(first->wait().exit_code, 128 + SIGTERM);
}

TEST_F(Nodes, MeetAndTrainOverIpv6) {
  const std::string address = hosts_.add_ipv6(0);
  if (address.empty() || hosts_.add_ipv6(1).empty()) GTEST_SKIP() << "this system has no IPv6";
  std::vector<std::unique_ptr<Process>> nodes;
  const std::vector<std::string> sets = {"launch.nnodes=2", "training.max_steps=3",
                                         "rendezvous.main_address=" + address};
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, sets, {RESUMING_RANK_PROGRAM}));
  const ProcessResult first = nodes[0]->wait(), second = nodes[1]->wait();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(first.err, HasSubstr("hookline: waiting for other nodes at [fd99::1]:29500 (run id '"));
}

// Debian's installer writes such a line into /etc/hosts.
TEST_F(Nodes, TrainIfTheFirstHostKnowsItsOwnNameByLoopbackOnly) {
  hosts_.know(0, "meeting", "127.0.1.1");
  hosts_.know(1, "meeting", Hosts::address(0));
  std::vector<std::unique_ptr<Process>> nodes;
  const std::vector<std::string> sets = {"launch.nnodes=2", "training.max_steps=3",
                                         "rendezvous.main_address=meeting"};
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, sets, {RESUMING_RANK_PROGRAM}));
  for (const auto& node : nodes) {
    const ProcessResult result = node->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
}

TEST_F(Nodes, SayThatThePortBelongsInMainPort) {
  const ProcessResult result =
      launch(0, {"launch.nnodes=2", "rendezvous.main_address=10.99.0.1:29500"}, {"./train"})->wait();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err,
            "hookline: error: main_address '10.99.0.1:29500' can't be resolved: Name or service not known; "
            "the port belongs in main_port (from command line --set rendezvous.main_address)\n");
}

TEST_F(Nodes, SayEarlyThatNobodyAnswers) {
  const auto second = launch(1, {"launch.nnodes=2"});
  EXPECT_TRUE(second->wait_for("hookline: warning: no node answers at " + Hosts::address(0) +
                               ":29500 yet; trying for 300 s\n"))
      << second->err();
  const auto first = launch(0, {"launch.nnodes=2"});
  ASSERT_TRUE(there("here1-of-2-restart0")) << first->err() << second->err();
  let_all_exit(0);
  EXPECT_EQ(first->wait().exit_code, 0) << first->err();
  EXPECT_EQ(second->wait().exit_code, 0) << second->err();
}

// As under Slurm, where a node that does not know the first one's name uses its address.
TEST_F(Nodes, OfASchedulersJobMeetHoweverTheyWriteTheAddress) {
  hosts_.know(0, "meeting", Hosts::address(0));
  folder_.write("hosts0", "meeting\n");
  folder_.write("hosts1", Hosts::address(0) + "\n");
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 2; ++i) {
    ProcessOptions options;
    options.folder = folder_.path();
    options.environment = {{"PMI_RANK", std::to_string(i)},
                           {"PMI_SIZE", "2"},
                           {"MPI_LOCALNRANKS", "1"},
                           {"PBS_JOBID", "7"},
                           {"HYDRA_HOST_FILE", (folder_.path() / ("hosts" + std::to_string(i))).string()},
                           {"OMP_NUM_THREADS", "1"},
                           {"CUDA_VISIBLE_DEVICES", ""}};
    options.arguments = {"launch", "--set", "logging.dir=runs" + std::to_string(i), "./train"};
    nodes.push_back(hosts_.start(i, HOOKLINE_BINARY, options));
  }
  ASSERT_TRUE(there("here0-of-2-restart0") && there("here1-of-2-restart0"))
      << nodes[0]->err() << nodes[1]->err();
  let_all_exit(0);
  for (const auto& node : nodes) EXPECT_EQ(node->wait().exit_code, 0) << node->err();
  EXPECT_THAT(nodes[0]->err(), HasSubstr("; the nodes meet at meeting"));
  EXPECT_THAT(nodes[1]->err(), HasSubstr("; the nodes meet at " + Hosts::address(0)));
}

TEST_F(Nodes, SayThatTheyHaveAddressesOfTwoFamilies) {
  const std::string ipv6 = hosts_.add_ipv6(0);
  if (ipv6.empty() || hosts_.add_ipv6(1).empty()) GTEST_SKIP() << "this system has no IPv6";
  hosts_.know(0, "meeting", Hosts::address(0));
  hosts_.know(1, "meeting", ipv6);
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 2; ++i)
    nodes.push_back(launch(i, {"launch.nnodes=2", "rendezvous.main_address=meeting", "launch.max_restarts=0"},
                           {RESUMING_RANK_PROGRAM}));
  const ProcessResult second = nodes[1]->wait();
  EXPECT_EQ(second.exit_code, 2) << second.err;
  const std::string why = ": its ranks have the address fd99::2, and those of the node " +
                          testing::host_name() + " have 10.99.0.1, so they can't connect to each other: ";
  EXPECT_THAT(second.err, HasSubstr("hookline: error: this node can't take part in the run" + why));
  EXPECT_TRUE(
      nodes[0]->wait_for("hookline: warning: the node " + testing::host_name() + " was refused" + why));
  nodes[0]->signal(SIGTERM);
  EXPECT_EQ(nodes[0]->wait().exit_code, 128 + SIGTERM);
  const ProcessResult refused =
      launch(2, {"launch.nnodes=2", "rendezvous.main_address=fd99::1"}, {"./train"})->wait();
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.err,
            "hookline: error: main_address 'fd99::1' (from command line --set rendezvous.main_address) can't "
            "be reached from this host, which has no "
            "address of its family\n  addresses of this host: 10.99.0.3\n");
}

/// The kernel's list of sockets that listen at all addresses of a host, as a TCPStore of the ranks would.
std::string open_to_all(const Hosts& hosts, int host) {
  ProcessOptions options;
  options.arguments = {"/proc/net/tcp", "/proc/net/tcp6"};
  std::istringstream lines(hosts.start(host, "/bin/cat", options)->wait().out);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state;
    words >> number >> local >> remote >> state;
    if (state == "0A" && local.find_first_not_of('0') >= local.find(':')) found += line + "\n";
  }
  return found;
}

/// The ports at which a process listens, in hexadecimal digits.
std::vector<std::string> ports_of(pid_t process) {
  const std::filesystem::path folder = "/proc/" + std::to_string(process);
  std::set<std::string> own;
  std::error_code gone;
  for (const auto& file : std::filesystem::directory_iterator(folder / "fd"))
    own.insert(std::filesystem::read_symlink(file.path(), gone).string());
  std::vector<std::string> ports;
  for (const char* const table : {"net/tcp", "net/tcp6"}) {
    std::istringstream lines(read_file(folder / table));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::vector<std::string> columns{std::istream_iterator<std::string>(words), {}};
      if (columns.size() > 9 && columns[3] == "0A" && own.contains("socket:[" + columns[9] + "]"))
        ports.push_back(columns[1].substr(columns[1].find(':') + 1));
    }
  }
  return ports;
}

TEST_F(Nodes, LetNoStoreOfTheRanksListenOnTheNetwork) {
  std::vector<std::unique_ptr<Process>> nodes;
  const std::vector<std::string> sets = {"launch.nnodes=2", "training.checkpoint_every_steps=1",
                                         "training.max_steps=100000"};
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, sets, {RESUMING_RANK_PROGRAM, "100000"}));
  ASSERT_TRUE(there("checkpoints/step_00000005"));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(open_to_all(hosts_, i), "") << "on host " << i;
  EXPECT_THAT(ports_of(relay_of(*nodes[0])), ::testing::ElementsAre("733C")) << "main_port, 29500, alone";
  EXPECT_THAT(ports_of(relay_of(*nodes[1])), ::testing::IsEmpty());
  nodes[0]->signal(SIGINT);
  for (const auto& node : nodes) EXPECT_EQ(node->wait().exit_code, 128 + SIGINT) << node->err();
}

TEST_F(Nodes, GiveAPythonScriptAStoreThatOnlyTheirHostsReach) {
  folder_.write("train.py",
                "import os, pathlib, time, torch, torch.distributed as dist\n"
                "dist.init_process_group('gloo')\n"
                "dist.barrier()\n"
                "dist.destroy_process_group()\n"
                "time.sleep(1)\n"
                "dist.init_process_group('gloo')\n"
                "total = torch.tensor([dist.get_rank() + 1.0])\n"
                "dist.all_reduce(total)\n"
                "print('sum', total.item(), 'port', os.environ['MASTER_PORT'] + ';', flush=True)\n"
                "while not pathlib.Path('exit').exists(): time.sleep(0.02)\n"
                "dist.destroy_process_group()\n");
  folder_.write("ask.py",
                "import socket, sys\n"
                "with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as store:\n"
                "    store.sendall(bytes([0]) + (0x3C85F7CE).to_bytes(4, 'little') + bytes([7]))\n"
                "    print('answer of', len(store.recv(8)), 'bytes')\n");
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 2; ++i) {
    hosts_.know(i, "meeting", Hosts::address(0));
    nodes.push_back(launch(
        i, {"launch.nnodes=2", "launch.node_rank=" + std::to_string(i), "rendezvous.main_address=meeting"},
        {"/usr/bin/env", PYTHON_PROGRAM, "train.py"}));
  }
  for (const auto& node : nodes) ASSERT_TRUE(node->wait_for("sum 3.0 port ")) << node->err();
  EXPECT_THAT(open_to_all(hosts_, 0), ContainsRegex("^ *[0-9]+: [0-9A-F]+:733C [^\n]*\n$"))
      << "main_port, 29500, alone: at all addresses, since main_address is a name";
  EXPECT_EQ(open_to_all(hosts_, 1), "");
  const std::string out = nodes[0]->out();
  const std::size_t at = out.find("port ") + 5;
  ProcessOptions asking;
  asking.folder = folder_.path();
  asking.arguments = {"ask.py", Hosts::address(0), out.substr(at, out.find(';', at) - at)};
  const auto answer_to = [&](int host) {
    const ProcessResult result = hosts_.start(host, PYTHON_PROGRAM, asking)->wait();
    return result.out + result.err;
  };
  EXPECT_THAT(answer_to(1), HasSubstr("answer of 8 bytes"));  // a host of the run: the number of keys
  EXPECT_THAT(answer_to(2),
              ::testing::AnyOf(HasSubstr("answer of 0 bytes"), HasSubstr("ConnectionResetError")));
  let_all_exit(0);
  const ProcessResult first = nodes[0]->wait(), second = nodes[1]->wait();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(first.err,
              HasSubstr("hookline: warning: a connection from " + Hosts::address(2) +
                        " to the ranks' store was refused, as all others like it will be: no node of this "
                        "run has joined from there\n"));
}

TEST_F(Nodes, ServeAPythonProgramOnOneHostAtLoopbackAlone) {
  folder_.write("train.py",
                "import os, pathlib, sys, time, torch, torch.distributed as dist\n"
                "dist.init_process_group('gloo')\n"
                "total = torch.tensor([dist.get_rank() + 1.0])\n"
                "dist.all_reduce(total)\n"
                "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0': sys.exit(3 * dist.get_rank())\n"
                "print('sum', total.item(), flush=True)\n"
                "while not pathlib.Path('exit').exists(): time.sleep(0.02)\n"
                "dist.destroy_process_group()\n");
  // Started through a program that is not Python itself.
  const auto run = launch(0, {"launch.processes_per_node=2", "launch.max_restarts=1"},
                          {"/usr/bin/env", PYTHON_PROGRAM, "train.py"});
  ASSERT_TRUE(run->wait_for("[1] sum 3.0\n")) << run->err();
  ProcessOptions listing;
  listing.arguments = {"-c", "cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == \"0A\" { print $2 }'"};
  std::istringstream listening(hosts_.start(0, "/bin/sh", listing)->wait().out);
  std::vector<std::string> addresses;
  for (std::string each; listening >> each;) addresses.push_back(each.substr(0, each.find(':')));
  EXPECT_THAT(addresses, AllOf(::testing::SizeIs(::testing::Ge(3U)), ::testing::Each("0100007F")))
      << "127.0.0.1, for the store and Gloo";
  let_all_exit(0);
  const ProcessResult result = run->wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(Nodes, SendNothingToOtherHostsFromARunOnOne) {
  if (!hosts_.count_packets(0)) GTEST_SKIP() << "packets can't be counted here";
  ProcessOptions stranger;
  stranger.arguments = {"-c", "exec 3<>/dev/tcp/" + Hosts::address(1) + "/9"};
  hosts_.start(0, "/bin/bash", stranger)->wait();
  const int before = hosts_.packets_sent(0);
  EXPECT_EQ(before, 1) << "a connection to a port that is closed";
  const ProcessResult result =
      launch(0, {"launch.processes_per_node=2", "training.max_steps=5"}, {RESUMING_RANK_PROGRAM, "16"})
          ->wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(hosts_.packets_sent(0), before);
}

TEST_F(Nodes, EndIfTheProcessThatServesAPythonProgramsStoreIsGone) {
  folder_.write("train.py",
                "import os, time\nprint('here', flush=True)\n"
                "while not os.path.exists('go'): time.sleep(0.02)\nraise SystemExit(5)\n");
  const auto run = launch(0, {"launch.max_restarts=1"}, {PYTHON_PROGRAM, "train.py"});
  ASSERT_TRUE(run->wait_for("here")) << run->err();
  const pid_t relay = relay_of(*run);
  ASSERT_NE(relay, 0);
  kill(relay, SIGKILL);
  folder_.write("go", "");
  const ProcessResult result = run->wait();
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, ::testing::EndsWith(
                              "hookline: error: this node can't continue in the run: '" +
                              std::filesystem::path(HOOKLINE_BINARY).parent_path().parent_path().string() +
                              "/libexec/hookline/node_relay', which serves the ranks' store, has ended\n"));
}

TEST_F(Nodes, ContinueAfterACutThatHeals) {
  // Cuts off the node that others join, then one that joins, each twice.
  for (const int host : {0, 1}) {
    const std::string program = "train" + std::to_string(host);
    folder_.write(program,
                  "#!/bin/sh\ntouch here$RANK-" + program + "\nwhile ! [ -e over" + program +
                      " ]; do sleep 0.02; done\n",
                  true);
    std::vector<std::unique_ptr<Process>> nodes;
    for (int i = 0; i < 2; ++i)
      nodes.push_back(launch(i, {"launch.nnodes=2", "rendezvous.node_timeout_seconds=8"}, {"./" + program}));
    ASSERT_TRUE(there("here0-" + program) && there("here1-" + program)) << nodes[0]->err() << nodes[1]->err();
    for (int times = 0; times < 2; ++times) {
      hosts_.cut(host);
      std::this_thread::sleep_for(std::chrono::milliseconds(4500));  // over half of the timeout
      hosts_.heal(host);
      std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    }
    folder_.write("over" + program, "");
    for (const auto& node : nodes) EXPECT_EQ(node->wait().exit_code, 0) << node->err();
  }
}

TEST_F(Nodes, NameTheSlowestOne) {
  std::vector<std::unique_ptr<Process>> nodes;
  const std::vector<std::string> sets = {"launch.nnodes=3", "training.max_steps=100000",
                                         "logging.status_interval_seconds=1"};
  const auto start = [&](int host, const char* slow) {
    nodes.push_back(
        launch(host, {sets[0], sets[1], sets[2], rank(host)}, {RESUMING_RANK_PROGRAM}, {{"SLOW_MS", slow}}));
  };
  start(0, "20");
  start(1, "80");
  start(2, "20");
  EXPECT_TRUE(nodes[0]->wait_for(" is the slowest: the others wait ")) << nodes[0]->err();
  EXPECT_TRUE(nodes[1]->wait_for(" is the slowest: the others wait ")) << nodes[1]->err();
  EXPECT_THAT(nodes[0]->err(),
              ContainsRegex("is the slowest: the others wait [1-9][0-9] % [^\n]* for its rank 1\n"));
  nodes[0]->signal(SIGINT);
  for (const auto& node : nodes) EXPECT_EQ(node->wait().exit_code, 128 + SIGINT) << node->err();
}

TEST_F(Nodes, TrainThoughPacketsAreLost) {
  for (int i = 0; i < 2; ++i)
    if (!hosts_.lose(i, 10)) GTEST_SKIP() << "this system can't lose packets (nft)";
  std::vector<std::unique_ptr<Process>> nodes;
  const std::vector<std::string> sets = {"launch.nnodes=2", "training.max_steps=20",
                                         "rendezvous.node_timeout_seconds=30"};
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, sets, {RESUMING_RANK_PROGRAM}));
  const ProcessResult first = nodes[0]->wait(), second = nodes[1]->wait();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(first.err, Not(HasSubstr("forming the run again")));
}

TEST_F(Nodes, ContinueWhenTheClockIsSet) {
  if (testing::kSanitized) GTEST_SKIP() << "nothing may be loaded before a sanitizer";
  const std::filesystem::path jump = folder_.path() / "jump";
  std::vector<std::unique_ptr<Process>> nodes;
  const auto start = [&](int host) {
    nodes.push_back(launch(host, {"launch.nnodes=2", rank(host)}, {"./train"},
                           {{"LD_PRELOAD", JUMPING_CLOCK}, {"CLOCK_JUMPS_WHILE", jump.string()}}));
  };
  start(0);
  ASSERT_TRUE(nodes[0]->wait_for("waiting for other nodes"));
  folder_.write("jump", "");
  start(1);
  ASSERT_TRUE(there("here0-of-2-restart0") && there("here1-of-2-restart0"));
  const auto year = [&](int host) {  // of the run folder's name
    const auto latest = folder_.path() / ("runs" + std::to_string(host)) / "latest";
    return std::stoi(std::filesystem::read_symlink(latest).filename().string().substr(0, 4));
  };
  EXPECT_GE(year(1), year(0) + 1);
  for (int i = 0; i < 2; ++i) {
    std::filesystem::remove(jump);
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    folder_.write("jump", "");
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  }
  let_all_exit(0);
  for (const auto& node : nodes) {
    const ProcessResult result = node->wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, Not(HasSubstr("is lost")));
  }
}

TEST_F(Nodes, RefuseOneMoreThanAFixedNumber) {
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, {"launch.nnodes=2"}));
  ASSERT_TRUE(there("here0-of-2-restart0") && there("here1-of-2-restart0"));
  const ProcessResult third = launch(2, {"launch.nnodes=2"})->wait();
  EXPECT_EQ(third.exit_code, 2);
  EXPECT_THAT(third.err,
              ContainsRegex("can't take part in the run: it is one too many: [^\n]*, \\S+ and \\S+\n"));
  let_all_exit(0);
  for (const auto& node : nodes) EXPECT_EQ(node->wait().exit_code, 0);
}

TEST_F(Nodes, GiveTheSpareThePlaceOfALauncherThatIsKilled) {
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, {"launch.nnodes=2+1"}));
  ASSERT_TRUE(there("here0-of-2-restart0") && there("here1-of-2-restart0"));
  nodes.push_back(launch(2, {"launch.nnodes=2+1"}));
  ASSERT_TRUE(nodes[2]->wait_for("waits as a spare"));
  nodes[1]->signal(SIGKILL);
  ASSERT_TRUE(there("here0-of-2-restart1") && there("here1-of-2-restart1"));
  let_all_exit(0);
  const ProcessResult first = nodes[0]->wait(), spare = nodes[2]->wait();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(spare.exit_code, 0) << spare.err;
  EXPECT_THAT(spare.out, HasSubstr("[1] rank 1 of 2, restart 1, "));
}

TEST_F(Nodes, FailOnANodeThatTookNoPart) {
  std::vector<std::unique_ptr<Process>> nodes;
  for (int i = 0; i < 2; ++i) nodes.push_back(launch(i, {"launch.nnodes=2:3"}));
  ASSERT_TRUE(there("here0-of-2-restart0") && there("here1-of-2-restart0"));
  nodes.push_back(launch(2, {"launch.nnodes=2:3"}));
  ASSERT_TRUE(nodes[2]->wait_for("waits; it takes part"));
  let_all_exit(0);
  EXPECT_EQ(nodes[0]->wait().exit_code, 0);
  EXPECT_EQ(nodes[1]->wait().exit_code, 0);
  const ProcessResult third = nodes[2]->wait();
  EXPECT_EQ(third.exit_code, 1);
  EXPECT_THAT(third.err,
              HasSubstr("hookline: error: the run has ended well, but this node took no part: no place "
                        "became free for it\n"));
}

TEST_F(Nodes, ContinueWhenRanksNoticeALostNodeFirst) {
  std::vector<std::unique_ptr<Process>> nodes;
  const std::vector<std::string> sets = {"launch.nnodes=2:3", "training.checkpoint_every_steps=1",
                                         "training.max_steps=600", "rendezvous.node_timeout_seconds=6"};
  for (int i = 0; i < 3; ++i) nodes.push_back(launch(i, sets, {RESUMING_RANK_PROGRAM, "500"}));
  ASSERT_TRUE(there("checkpoints/step_00000005"));
  nodes[2]->signal(SIGKILL);
  const ProcessResult first = nodes[0]->wait(), second = nodes[1]->wait();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(first.err, HasSubstr("hookline: forming the run again: 2 of 3 nodes; "));
}

TEST_F(Nodes, ResumeFromTheirCheckpointOnTheRemainingHosts) {
  std::vector<std::unique_ptr<Process>> nodes;
  const std::vector<std::string> sets = {"launch.nnodes=2:3", "training.checkpoint_every_steps=1",
                                         "training.max_steps=600", "ddp.comm_hook=power_sgd",
                                         "ddp.comm_state_option.start_powerSGD_iter=3"};
  // The network is slow, so that the cable is pulled in the middle of a step.
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(hosts_.shape(i, "100mbit"));
  for (int i = 0; i < 3; ++i) nodes.push_back(launch(i, sets, {RESUMING_RANK_PROGRAM, "500"}));
  ASSERT_TRUE(there("checkpoints/step_00000005"));
  hosts_.unplug(2);
  EXPECT_EQ(nodes[2]->wait().exit_code, 1);
  const ProcessResult first = nodes[0]->wait(), second = nodes[1]->wait();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(first.err,
              AllOf(HasSubstr("is lost: it sends no heartbeat\n"), HasSubstr("hookline: resuming from step "),
                    HasSubstr("(saved by 3 ranks, now 2): what power_sgd(rank=1, start=3) kept ")));
  EXPECT_THAT(first.out, HasSubstr("[0] ended at step 600: "));
  EXPECT_THAT(second.out, HasSubstr("[1] ended at step 600: "));
}

}  // namespace
}  // namespace hookline
