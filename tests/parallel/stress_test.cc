// PowerSGD with many buckets between hosts whose links differ in speed: the case in which collectives overtake each other.

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "support/hosts.h"

namespace hookline::testing {
namespace {

using ::testing::HasSubstr;

TEST(Stress, PowerSgdKeepsFourRanksOnThreeUnequalHostsEqualForAThousandSteps) {
  const Hosts hosts(3);
  if (!hosts.ok()) GTEST_SKIP() << "network namespaces can't be made here: run as root, with ip";
  if (!hosts.shape(1, "1gbit") || !hosts.shape(2, "100mbit")) GTEST_SKIP() << "tc can't shape links here";
  const std::vector<int> host_of_rank = {0, 0, 1, 2};
  std::vector<std::unique_ptr<Process>> ranks;
  for (std::size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    ProcessOptions options;
    options.arguments = {"1000"};
    options.limit = std::chrono::minutes(9);
    options.environment = {{"RANK", std::to_string(rank)},
                           {"WORLD_SIZE", std::to_string(host_of_rank.size())},
                           {"LOCAL_RANK", rank == 1 ? "1" : "0"},
                           {"MASTER_ADDR", Hosts::address(0)},
                           {"MASTER_PORT", "29400"},
                           {"OMP_NUM_THREADS", "1"},
                           {"HOOKLINE_CONFIG", std::nullopt},
                           {"HOOKLINE_DDP__BUCKET_CAP_MB", "1"},
                           {"HOOKLINE_DDP__COMM_HOOK", "power_sgd"},
                           {"HOOKLINE_DDP__COMM_STATE_OPTION__MATRIX_APPROXIMATION_RANK", "2"},
                           {"HOOKLINE_DDP__COMM_STATE_OPTION__START_POWERSGD_ITER", "10"}};
    ranks.push_back(hosts.start(host_of_rank[rank], STRESS_RANK_PROGRAM, options));
  }
  for (const auto& rank : ranks) {
    const ProcessResult result = rank->wait();
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("1000 steps, and all ranks are equal\n"));
  }
}

}  // namespace
}  // namespace hookline::testing
