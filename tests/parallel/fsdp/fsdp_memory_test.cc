// Ranks are processes, so that each has its own peak memory.

#include <gtest/gtest.h>

#include <cstdint>
#include <regex>
#include <string>

#include "support/process.h"

namespace hookline::testing {
namespace {

// 64 MiB. Gathering all 21 million parameters took 150 MB and more.
constexpr long long kLargestLayerKb = 4096 * 4096 * 4 / 1024;

TEST(FsdpMemory, GrowsInPrepareByLittleMoreThanTheLargestLayer) {
  const TemporaryFolder folder;
  ProcessOptions options;
  options.folder = folder.path();
  options.environment = {{"OMP_NUM_THREADS", "1"}, {"CUDA_VISIBLE_DEVICES", ""}};
  options.arguments = {"launch",
                       "--processes-per-node",
                       "4",
                       "--set",
                       "fsdp.sharding_strategy=full_shard",
                       SHARDED_MEMORY_RANK_PROGRAM};
  const ProcessResult result = run_process(HOOKLINE_BINARY, options);
  if (result.err.find("exit code 77") != std::string::npos)
    GTEST_SKIP() << "the kernel does not let a process forget its peak memory";
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::regex line("peak ([0-9]+) before prepare, ([0-9]+) in it, ([0-9]+) in a step");
  int ranks = 0;
  for (std::sregex_iterator found(result.out.begin(), result.out.end(), line), end; found != end;
       ++found, ++ranks) {
    EXPECT_LT(std::stoll((*found)[2]) - std::stoll((*found)[1]), kLargestLayerKb * 3 / 2) << found->str();
    EXPECT_LE(std::stoll((*found)[2]), std::stoll((*found)[3])) << found->str();
  }
  EXPECT_EQ(ranks, 4) << result.out;
}

}  // namespace
}  // namespace hookline::testing
