// Chooses a hook on a link of known speed, and again when that speed changes: ranks are processes, hosts
// network namespaces.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/hosts.h"

namespace hookline {
namespace {

using ::testing::HasSubstr;
using testing::Hosts;
using testing::Process;
using testing::ProcessOptions;
using testing::ProcessResult;

int count_of(const std::string& text, const std::string& in) {
  int count = 0;
  for (std::size_t at = in.find(text); at != std::string::npos; at = in.find(text, at + 1)) ++count;
  return count;
}

// 6.3 MB take half a second at 100 Mbit/s, half of that in half precision.
TEST(LinkChange, LeadsToOneNewChoice) {
  const Hosts hosts(2);
  if (!hosts.ok()) GTEST_SKIP() << "network namespaces can't be made here: run as root, with ip";
  for (const int host : {0, 1}) ASSERT_TRUE(hosts.shape(host, "100mbit"));
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ProcessOptions options;
    options.arguments = {"32", "fp16"};
    options.environment = {
        {"RANK", std::to_string(rank)},     {"WORLD_SIZE", "2"},      {"LOCAL_RANK", "0"},
        {"MASTER_ADDR", Hosts::address(0)}, {"MASTER_PORT", "29400"}, {"OMP_NUM_THREADS", "1"},
        {"HOOKLINE_CONFIG", std::nullopt}};
    ranks.push_back(hosts.start(rank, CHOOSING_RANK_PROGRAM, options));
  }
  ASSERT_TRUE(ranks[0]->wait_for("chose fp16\n")) << ranks[0]->err();
  ASSERT_TRUE(ranks[0]->wait_for("fp16 takes ")) << ranks[0]->err();
  for (const int host : {0, 1}) ASSERT_TRUE(hosts.shape(host, "2gbit"));
  for (const auto& rank : ranks) {
    const ProcessResult result = rank->wait();
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    if (rank != ranks[0]) continue;
    // Once for the link; other activity on this machine may cause more.
    const int times = count_of(": choosing again\n", result.err);
    EXPECT_GE(times, 1) << result.err;
    EXPECT_LE(times, 4) << result.err;
    EXPECT_LT(times,
              count_of(" a step; no hook takes ", result.err) + count_of("no hook, which takes ", result.err))
        << "each change leads to a choice; " << result.err;
  }
}

}  // namespace
}  // namespace hookline
