// Chooses a hook on a link of known speed, and again when that speed changes: ranks are processes, hosts
// network namespaces.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "support/hosts.h"

namespace hookline {
namespace {

using testing::eventually;
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

int choices_in(const std::string& log) {
  return count_of(" a step; without a hook, a step takes ", log) +
         count_of("trains without a hook, which takes ", log);
}

// 6.3 MB take half a second at 100 Mbit/s, half of that in half precision.
TEST(LinkChange, LeadsToANewChoice) {
  const Hosts hosts(2);
  if (!hosts.ok()) GTEST_SKIP() << "network namespaces can't be made here: run as root, with ip";
  for (const int host : {0, 1}) ASSERT_TRUE(hosts.shape(host, "100mbit"));
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ProcessOptions options;
    options.arguments = {"90", "fp16"};
    options.environment = {
        {"RANK", std::to_string(rank)},     {"WORLD_SIZE", "2"},      {"LOCAL_RANK", "0"},
        {"MASTER_ADDR", Hosts::address(0)}, {"MASTER_PORT", "29400"}, {"OMP_NUM_THREADS", "1"},
        {"HOOKLINE_CONFIG", std::nullopt}};
    ranks.push_back(hosts.start(rank, CHOOSING_RANK_PROGRAM, options));
  }
  ASSERT_TRUE(ranks[0]->wait_for("chose fp16\n")) << ranks[0]->err();
  ASSERT_TRUE(ranks[0]->wait_for("fp16 takes ")) << ranks[0]->err();
  for (const int host : {0, 1}) ASSERT_TRUE(hosts.shape(host, "2gbit"));
  // Each change leads to a choice; other activity on this machine may cause more.
  EXPECT_TRUE(eventually([&] {
    ranks[0]->read();
    const int changes = count_of(": choosing again\n", ranks[0]->err());
    return changes > 0 && choices_in(ranks[0]->err()) > changes;
  })) << ranks[0]->err();
  ranks[0]->signal(SIGUSR1);
  for (const auto& rank : ranks) {
    const ProcessResult result = rank->wait();
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_LE(count_of(": choosing again\n", result.err), 4) << result.err;
  }
}

}  // namespace
}  // namespace hookline
