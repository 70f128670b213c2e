// The traffic that leaves a host with several ranks: ranks are processes, hosts network namespaces.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/hosts.h"

namespace hookline {
namespace {

using ::testing::HasSubstr;
using testing::Hosts;
using testing::Process;
using testing::ProcessOptions;
using testing::ProcessResult;

constexpr double kGradientBytes = 6 * (512 * 512 + 512) * 4.0;  // of stress_rank's model

using Settings = std::vector<std::pair<std::string, std::string>>;

std::unique_ptr<Process> start_rank(const Hosts& hosts, const std::vector<int>& host_of, std::size_t rank,
                                    const std::string& steps, const Settings& settings = {}) {
  std::size_t local = 0;
  for (std::size_t other = 0; other < rank; ++other) local += host_of[other] == host_of[rank];
  ProcessOptions options;
  options.arguments = {steps};
  options.environment = {{"RANK", std::to_string(rank)},
                         {"WORLD_SIZE", std::to_string(host_of.size())},
                         {"LOCAL_RANK", std::to_string(local)},
                         {"MASTER_ADDR", Hosts::address(host_of[0])},
                         {"MASTER_PORT", "29400"},
                         {"OMP_NUM_THREADS", "1"},
                         {"HOOKLINE_CONFIG", std::nullopt}};
  for (const auto& [name, value] : settings) options.environment.emplace(name, value);
  return hosts.start(host_of[rank], STRESS_RANK_PROGRAM, options);
}

double bytes_sent_by(const Hosts& hosts, int host) {
  ProcessOptions options;
  options.arguments = {"/sys/class/net/e0/statistics/tx_bytes"};
  return std::stod(hosts.start(host, "/bin/cat", options)->wait().out);
}

/// The bytes that host 0 sends per step, computed from the difference between runs of `more` and `few` steps.
double bytes_in_a_step(const std::vector<int>& host_of, int few, int more, const Settings& settings = {}) {
  std::vector<double> sent;
  for (const int steps : {few, more}) {
    const Hosts hosts(2);
    if (!hosts.ok()) return -1;
    std::vector<std::unique_ptr<Process>> ranks;
    for (std::size_t rank = 0; rank < host_of.size(); ++rank)
      ranks.push_back(start_rank(hosts, host_of, rank, std::to_string(steps), settings));
    for (const auto& rank : ranks) {
      const ProcessResult result = rank->wait();
      EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
      EXPECT_THAT(result.out, HasSubstr("all ranks are equal\n"));
    }
    sent.push_back(bytes_sent_by(hosts, 0));
  }
  return (sent[1] - sent[0]) / (more - few);
}

// Other traffic, such as acknowledgements and retransmissions, differs between two runs by a few percent.
constexpr double kLeast = 0.95;

// In a ring of four ranks that alternate between the hosts, both neighbours of every rank are on the other
// host, so each byte would leave a host three times.
TEST(HostsTraffic, LeavesAHostOnceInAnyRankOrder) {
  for (const std::vector<int>& host_of : {std::vector<int>{0, 1, 0, 1}, std::vector<int>{0, 0, 1, 1}}) {
    const double bytes = bytes_in_a_step(host_of, 4, 14);
    if (bytes < 0) GTEST_SKIP() << "network namespaces can't be made here: run as root, with ip";
    EXPECT_GT(bytes, kLeast * kGradientBytes);
    EXPECT_LT(bytes, 1.15 * kGradientBytes) << "headers and acknowledgements are a few percent";
  }
}

// With a sharded optimizer, a host sends its summed gradients for the other host's half once, and its own
// half of the parameters once.
TEST(HostsTraffic, ReachesAHostOnceWithAShardedOptimizer) {
  const double bytes = bytes_in_a_step({0, 0, 1, 1}, 4, 14, {{"HOOKLINE_DDP__SHARD_OPTIMIZER", "true"}});
  if (bytes < 0) GTEST_SKIP() << "network namespaces can't be made here: run as root, with ip";
  EXPECT_GT(bytes, kLeast * kGradientBytes);
  EXPECT_LT(bytes, 1.15 * kGradientBytes);
}

// Host 0 sends its summed gradients for the other host's three ranks (three fifths), and its own two fifths
// of the parameters.
TEST(HostsTraffic, ReachesAHostOnceEvenIfTheOtherHasMoreRanks) {
  const double bytes = bytes_in_a_step({0, 0, 1, 1, 1}, 4, 14, {{"HOOKLINE_DDP__SHARD_OPTIMIZER", "true"}});
  if (bytes < 0) GTEST_SKIP() << "network namespaces can't be made here: run as root, with ip";
  EXPECT_GT(bytes, kLeast * kGradientBytes);
  EXPECT_LT(bytes, 1.15 * kGradientBytes);
}

class HostsTrafficOf : public ::testing::TestWithParam<const char*> {};

TEST_P(HostsTrafficOf, FailsOnEveryRankWhenOneIsKilled) {
  const Hosts hosts(2);
  if (!hosts.ok()) GTEST_SKIP() << "network namespaces can't be made here: run as root, with ip";
  const std::vector<int> host_of{0, 0, 1, 1};
  std::vector<std::unique_ptr<Process>> ranks;
  for (std::size_t rank = 0; rank < host_of.size(); ++rank)
    ranks.push_back(
        start_rank(hosts, host_of, rank, "1000000", {{"HOOKLINE_DDP__SHARD_OPTIMIZER", GetParam()}}));
  ASSERT_TRUE(testing::eventually([&] { return bytes_sent_by(hosts, 0) > 20 * kGradientBytes; }));
  ranks[3]->signal(SIGKILL);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const ProcessResult result = ranks[rank]->wait();
    EXPECT_FALSE(result.timed_out);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr("rank 3")) << "on rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(ShardOptimizer, HostsTrafficOf, ::testing::Values("false", "true"));

}  // namespace
}  // namespace hookline
