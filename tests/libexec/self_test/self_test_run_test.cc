// The self-test as a user runs it, on healthy and on faulty setups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/hosts.h"
#include "support/process.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::Hosts;
using ::testing::Not;
using testing::Process;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::TemporaryFolder;

ProcessOptions test_in(const TemporaryFolder& folder, const std::vector<std::string>& flags) {
  ProcessOptions options;
  options.folder = folder.path();
  options.environment = {{"OMP_NUM_THREADS", "1"},
                         {"CUDA_VISIBLE_DEVICES", ""},
                         {"TMPDIR", folder.path().string()},
                         {"XDG_CONFIG_HOME", folder.path().string()}};
  options.limit = std::chrono::minutes(4);
  options.arguments = {"test"};
  options.arguments.insert(options.arguments.end(), flags.begin(), flags.end());
  return options;
}

ProcessResult run(const TemporaryFolder& folder, const std::vector<std::string>& flags) {
  return testing::run_process(HOOKLINE_BINARY, test_in(folder, flags));
}

std::set<std::string> names_of(const nlohmann::json& checks) {
  std::set<std::string> names;
  for (const auto& check : checks) names.insert(check["name"]);
  return names;
}

TEST(SelfTest, TriesEveryCollectiveEveryHookAndEveryLink) {
  const TemporaryFolder folder;
  const ProcessResult result = run(folder, {"--processes-per-node", "3", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
  const auto json = nlohmann::json::parse(result.out);
  for (const auto& check : json["checks"]) {
    const bool may_be_slow = check["name"] == "links";  // if another program uses a core
    EXPECT_TRUE(check["verdict"] == "ok" || may_be_slow) << result.out;
  }
  const std::set<std::string> names = names_of(json["checks"]);
  for (const char* collective : {"broadcast", "all-reduce", "reduce", "all-gather", "gather", "scatter",
                                 "reduce-scatter", "all-to-all", "send and receive"})
    EXPECT_TRUE(names.contains(collective)) << collective;
  for (const char* other :
       {"join", "versions", "links", "sharded model", "sharded optimizer", "open files", "shared memory"})
    EXPECT_TRUE(names.contains(other)) << other;

  ProcessOptions list;
  list.arguments = {"hooks", "list", "--json"};
  const auto hooks = nlohmann::json::parse(testing::run_process(HOOKLINE_BINARY, list).out);
  std::set<std::string> tried;
  for (const auto& hook : json["hooks"]) tried.insert(hook["hook"]);
  for (const auto& hook : hooks["hooks"])
    EXPECT_TRUE(tried.contains(hook["name"].get<std::string>())) << hook["name"];
  EXPECT_TRUE(names.contains("power_sgd in fp16") && names.contains("no hook in bf16"));
  for (const auto& hook : json["hooks"]) EXPECT_GT(hook["seconds"], 0) << hook;

  ASSERT_EQ(json["links"].size(), 3u);
  for (const auto& link : json["links"]) {
    EXPECT_TRUE(link["same_node"].get<bool>());
    EXPECT_GT(link["latency_seconds"], 0);
    EXPECT_LT(link["latency_seconds"], 1);
    EXPECT_GT(link["bytes_per_second"], 1e6);
  }
  // A test without findings leaves no files.
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SelfTest, UsesTwoRanksByDefault) {
  const TemporaryFolder folder;
  const ProcessResult result = run(folder, {});
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("ok       join                       2 ranks on 1 host, cpu over shared memory"),
            HasSubstr(" checks: all is well\n")));
  EXPECT_THAT(result.out, HasSubstr("rank 0 - 1"));
}

TEST(SelfTest, WarnsOfTooFewOpenFiles) {
  const TemporaryFolder folder;
  ProcessOptions options = test_in(folder, {});
  options.arguments = {"-c", "ulimit -n 56; exec " HOOKLINE_BINARY " test --processes-per-node 2"};
  const ProcessResult result = testing::run_process("/bin/bash", options);
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
  EXPECT_THAT(result.out, AllOf(HasSubstr("warning  open files                 rank 0: "),
                                HasSubstr(" of 56 at most, with 2 ranks\n"), HasSubstr("-> raise the limit"),
                                HasSubstr("runs will work, with 1 warning\n")));
}

TEST(SelfTest, StopsBeforeItRunsOutOfFiles) {
  const TemporaryFolder folder;
  ProcessOptions options = test_in(folder, {});
  options.arguments = {"-c", "ulimit -n 34; exec " HOOKLINE_BINARY " test --processes-per-node 2"};
  const ProcessResult result = testing::run_process("/bin/bash", options);
  EXPECT_EQ(result.exit_code, 1) << result.err << result.out;
  EXPECT_THAT(result.out,
              AllOf(ContainsRegex(
                        "too many open files [^\n]*: a rank may have 34, and 2 ranks take about [34][0-9] "),
                    HasSubstr("-> raise the limit")));
  // The output ends with the verdict; the launcher adds nothing.
  EXPECT_TRUE(result.out.ends_with("\n1 check: 1 check failed\n")) << result.out;
  EXPECT_THAT(result.err, Not(HasSubstr("rank 0")));
}

/// Kills the ranks among the descendants of `process`; the other processes then exit by themselves.
void kill_ranks(pid_t process) {
  for (const pid_t child : testing::children_of(process)) {
    if (testing::of_process(child, "comm") == "self_test_rank\n")
      kill(child, SIGKILL);
    else
      kill_ranks(child);
  }
}

/// Runs a self-test and kills its ranks once it has started.
ProcessResult killed_test(const std::vector<std::string>& flags) {
  const TemporaryFolder folder;
  Process test(HOOKLINE_BINARY, test_in(folder, flags));
  EXPECT_TRUE(testing::eventually(
      [&] {
        for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
          const auto report = entry.path() / "report.json";
          if (std::filesystem::exists(report))
            return testing::read_file(report).find("broadcast") != std::string::npos;
        }
        return false;
      },
      std::chrono::minutes(2)));
  kill_ranks(test.pid());
  return test.wait();
}

TEST(SelfTest, GivesAVerdictEvenIfRanksDie) {
  ProcessResult result = killed_test({"--json"});
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.err << result.out;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["verdict"], "failed");
  EXPECT_GT(json["not_tried"], 0);
  EXPECT_EQ(json["checks"][0]["name"], "join");
  EXPECT_EQ(json["checks"].back()["found"], "the test exited with code 137 before all was tried");
  EXPECT_THAT(result.err, HasSubstr(" was killed by SIGKILL"));
  result = killed_test({});
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.err << result.out;
  EXPECT_THAT(result.out,
              ::testing::ContainsRegex("[0-9]+ checks, and the ranks ended with [0-9]+ not tried\n$"));
}

// A hook that changes gradients on purpose is only checked for equal results on all ranks. A program's hook
// cannot be tested.
TEST(SelfTest, TestsAPluginsHookButNotAPrograms) {
  const TemporaryFolder folder;
  folder.write("clip.toml", "[ddp]\nplugins = [\"" CLIP_PLUGIN
                            "\"]\ncomm_hook = \"clip_allreduce\"\n"
                            "[ddp.comm_state_option]\nmax_norm = 0.5\n");
  ProcessResult result = run(folder, {"--config", "clip.toml"});
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
  EXPECT_THAT(result.out, AllOf(HasSubstr("ok       clip_allreduce "),
                                HasSubstr("; it gives something other than the mean, alike on all ranks\n")));
  result = run(folder, {"--set", "ddp.comm_hook=program:mine"});
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
  EXPECT_THAT(result.err, HasSubstr("comm_hook 'program:mine' is the program's own, and is not tried"));
}

TEST(SelfTest, LeavesNothingBehindWhenItIsStopped) {
  const TemporaryFolder folder;
  Process test(HOOKLINE_BINARY, test_in(folder, {}));
  ASSERT_TRUE(test.wait_for("broadcast"));
  test.signal(SIGINT);
  EXPECT_EQ(test.wait().exit_code, 128 + SIGINT);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SelfTest, NamesTheTemporaryFolderThatCanNotBeUsed) {
  const TemporaryFolder folder;
  ProcessOptions options = test_in(folder, {});
  options.environment["TMPDIR"] = "/nowhere";
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("no folder for the test's logs can be made in '/nowhere' (TMPDIR): No such file or "
                        "directory; choose another with TMPDIR\n"));
}

TEST(SelfTest, ReportsConfigErrorsAsLaunchDoes) {
  const TemporaryFolder folder;
  const ProcessResult result = run(folder, {"--set", "ddp.comm_hook=power_sdg"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("power_sgd"));
  EXPECT_EQ(run(folder, {"--time-limit", "0"}).exit_code, 2);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

/// Runs a self-test over two hosts.
class SelfTestOfHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!hosts_.ok()) GTEST_SKIP() << "network namespaces can't be made here (run as root)";
  }

  std::vector<ProcessResult> run_on_both(const std::map<std::string, std::optional<std::string>>& environment,
                                         const std::vector<std::string>& flags) {
    std::vector<std::unique_ptr<Process>> nodes;
    for (int host = 0; host < 2; ++host) {
      ProcessOptions options =
          test_in(folder_, {"--set", "rendezvous.main_address=" + Hosts::address(0), "--set",
                            "launch.nnodes=2", "--set", "launch.node_rank=" + std::to_string(host)});
      options.arguments.insert(options.arguments.end(), flags.begin(), flags.end());
      for (const auto& each : environment) options.environment.insert(each);
      nodes.push_back(hosts_.start(host, HOOKLINE_BINARY, options));
    }
    std::vector<ProcessResult> results;
    for (const auto& node : nodes) results.push_back(node->wait());
    return results;
  }

  Hosts hosts_{2};
  TemporaryFolder folder_;
};

TEST_F(SelfTestOfHosts, MeasuresAShapedLink) {
  for (int host = 0; host < 2; ++host) ASSERT_TRUE(hosts_.shape(host, "200mbit"));
  const auto results = run_on_both({}, {"--json"});
  ASSERT_EQ(results[0].exit_code, 0) << results[0].err << results[0].out;
  EXPECT_EQ(results[1].exit_code, 0);
  EXPECT_EQ(results[1].out, "");
  const auto json = nlohmann::json::parse(results[0].out);
  ASSERT_EQ(json["links"].size(), 1u);
  EXPECT_FALSE(json["links"][0]["same_node"].get<bool>());
  EXPECT_GT(json["links"][0]["bytes_per_second"], 5e6);
  EXPECT_LT(json["links"][0]["bytes_per_second"], 40e6) << "25 MB/s is what the link carries";
}

TEST_F(SelfTestOfHosts, StopsAtItsTimeLimit) {
  for (int host = 0; host < 2; ++host) ASSERT_TRUE(hosts_.shape(host, "1mbit"));
  const auto results = run_on_both({}, {"--time-limit", "8"});
  EXPECT_EQ(results[0].exit_code, 1) << results[0].err;
  EXPECT_THAT(results[0].out, AllOf(HasSubstr("ok       join "), HasSubstr("\nfailed   "),
                                    HasSubstr("not done when the limit of 8 s was reached"),
                                    HasSubstr("on a slow network, raise --time-limit\n"),
                                    ContainsRegex(" checks: 1 check failed, [0-9]+ not tried\n$")));
  EXPECT_THAT(results[0].err, Not(HasSubstr("rank 0")));
}

TEST_F(SelfTestOfHosts, NamesAnAddressThatOthersCanNotReach) {
  const auto results = run_on_both({{"GLOO_SOCKET_IFNAME", "lo"}}, {});
  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_THAT(result.out + result.err,
                HasSubstr("node 0 (127.0.0.1) can't connect to node 1 at 127.0.0.1 port "));
  }
  EXPECT_THAT(results[0].out,
              HasSubstr("that is a loopback address, at which no other host reaches it: unset "
                        "GLOO_SOCKET_IFNAME, or have it name another interface\n"));
}

TEST_F(SelfTestOfHosts, NamesAnInterfaceThatIsNotThere) {
  const auto results = run_on_both({{"GLOO_SOCKET_IFNAME", "eth7"}}, {});
  EXPECT_EQ(results[0].exit_code, 1) << results[0].err;
  EXPECT_THAT(results[0].out,
              HasSubstr("GLOO_SOCKET_IFNAME is 'eth7', and this host's interfaces are: lo, e0\n"));
}

// Each host has a second network on which replies of host 1 never arrive, as behind a firewall.
TEST_F(SelfTestOfHosts, NamesThePortThatAFirewallDrops) {
  for (int host = 0; host < 2; ++host) {
    const std::string own = "10.98.0." + std::to_string(host + 1) + "/32";
    const std::string other = "10.98.0." + std::to_string(2 - host) + "/32";
    ASSERT_TRUE(hosts_.configure(host, {"link", "add", "data", "type", "veth", "peer", "name", "end"}) &&
                hosts_.configure(host, {"addr", "add", own, "dev", "data"}) &&
                hosts_.configure(host, {"link", "set", "data", "up"}) &&
                hosts_.configure(host, {"link", "set", "end", "up"}) &&
                hosts_.configure(host, {"route", "add", other, "via", Hosts::address(1 - host)}));
  }
  ASSERT_TRUE(hosts_.configure(1, {"rule", "add", "from", "10.98.0.2", "blackhole"}));
  const auto results = run_on_both({{"GLOO_SOCKET_IFNAME", "data"}}, {});
  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_THAT(result.out + result.err,
                AllOf(HasSubstr("node 0 (10.98.0.1) can't connect to node 1 at 10.98.0.2 port "),
                      HasSubstr(": no answer within 10 s; a firewall drops it"),
                      HasSubstr("/proc/sys/net/ipv4/ip_local_port_range")));
  }
}

}  // namespace
}  // namespace hookline
