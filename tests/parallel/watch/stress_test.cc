// PowerSGD with many buckets whose collectives overtake each other: between hosts with links of different
// speeds, and between ranks that share memory.

#include <gmock/gmock.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/free_port.h"
#include "support/hosts.h"

namespace hookline::testing {
namespace {

using ::testing::HasSubstr;

using StartRank = std::function<std::unique_ptr<Process>(std::size_t rank, const ProcessOptions& options)>;

void expect_equal_after_a_thousand_steps(std::size_t size, const std::string& address,
                                         const std::string& port, const std::string& backend,
                                         const StartRank& start) {
  std::vector<std::unique_ptr<Process>> ranks;
  for (std::size_t rank = 0; rank < size; ++rank) {
    ProcessOptions options;
    options.arguments = {"1000"};
    options.limit = std::chrono::minutes(9);
    options.environment = {{"RANK", std::to_string(rank)},
                           {"WORLD_SIZE", std::to_string(size)},
                           {"LOCAL_RANK", "0"},
                           {"MASTER_ADDR", address},
                           {"MASTER_PORT", port},
                           {"OMP_NUM_THREADS", "1"},
                           {"HOOKLINE_CONFIG", std::nullopt},
                           {"HOOKLINE_LAUNCH__BACKEND", backend},
                           {"HOOKLINE_DDP__BUCKET_CAP_MB", "1"},
                           {"HOOKLINE_DDP__COMM_HOOK", "power_sgd"},
                           {"HOOKLINE_DDP__COMM_STATE_OPTION__MATRIX_APPROXIMATION_RANK", "2"},
                           {"HOOKLINE_DDP__COMM_STATE_OPTION__START_POWERSGD_ITER", "10"}};
    ranks.push_back(start(rank, options));
  }
  for (const auto& rank : ranks) {
    const ProcessResult result = rank->wait();
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, HasSubstr("1000 steps, and all ranks are equal\n"));
  }
}

TEST(Stress, PowerSgdKeepsFourRanksOnThreeUnequalHostsEqualForAThousandSteps) {
  const Hosts hosts(3);
  if (!hosts.ok()) GTEST_SKIP() << "network namespaces can't be made here: run as root, with ip";
  if (!hosts.shape(1, "1gbit") || !hosts.shape(2, "100mbit")) GTEST_SKIP() << "tc can't shape links here";
  const std::vector<int> host_of_rank = {0, 0, 1, 2};
  expect_equal_after_a_thousand_steps(host_of_rank.size(), Hosts::address(0), "29400", "auto",
                                      [&](std::size_t rank, ProcessOptions options) {
                                        if (rank == 1) options.environment["LOCAL_RANK"] = "1";
                                        return hosts.start(host_of_rank[rank], STRESS_RANK_PROGRAM, options);
                                      });
}

TEST(Stress, PowerSgdKeepsFourRanksThatShareMemoryEqualForAThousandSteps) {
  expect_equal_after_a_thousand_steps(4, "127.0.0.1", std::to_string(free_port()), "shm",
                                      [](std::size_t rank, ProcessOptions options) {
                                        options.environment["LOCAL_RANK"] = std::to_string(rank);
                                        return std::make_unique<Process>(STRESS_RANK_PROGRAM, options);
                                      });
}

}  // namespace
}  // namespace hookline::testing
