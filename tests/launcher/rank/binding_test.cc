#include "launcher/rank/binding.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace hookline {
namespace {

std::vector<std::string> texts(const std::string& binding, int ranks, const char* machine) {
  std::vector<std::string> result;
  for (const Cores& cores : cores_of_ranks(binding, ranks, machine)) result.push_back(cores_text(cores));
  return result;
}

using Texts = std::vector<std::string>;

TEST(Binding, DividesTheCoresSoThatNeighboursStayTogether) {
  const char* two_nodes = "numa:2 core:4 pu:2";  // 16 logical processors
  EXPECT_EQ(texts("core", 1, two_nodes), (Texts{"0-15"}));
  EXPECT_EQ(texts("core", 2, two_nodes), (Texts{"0-7", "8-15"}));
  EXPECT_EQ(texts("core", 4, two_nodes), (Texts{"0-3", "4-7", "8-11", "12-15"}));
  EXPECT_EQ(texts("core", 8, two_nodes),
            (Texts{"0-1", "2-3", "4-5", "6-7", "8-9", "10-11", "12-13", "14-15"}));
}

TEST(Binding, UsesEveryCoreWhenTheyDoNotDivideEvenly) {
  std::vector<bool> used(6);
  for (const Cores& cores : cores_of_ranks("core", 4, "numa:1 core:6 pu:1")) {
    EXPECT_FALSE(cores.empty());
    for (const int core : cores) {
      EXPECT_FALSE(used[static_cast<std::size_t>(core)]) << "core " << core << " is shared";
      used[static_cast<std::size_t>(core)] = true;
    }
  }
  EXPECT_EQ(std::vector<bool>(6, true), used);
}

TEST(Binding, SharesCoresWhenThereAreMoreRanks) {
  EXPECT_EQ(texts("core", 4, "numa:1 core:2 pu:2"), (Texts{"0-1", "0-1", "2-3", "2-3"}));
}

TEST(Binding, GivesEachRankAWholeNode) {
  const char* four_nodes = "numa:4 core:2 pu:1";
  EXPECT_EQ(texts("numa", 2, four_nodes), (Texts{"0-1", "2-3"}));
  EXPECT_EQ(texts("numa", 4, four_nodes), (Texts{"0-1", "2-3", "4-5", "6-7"}));
  EXPECT_EQ(texts("numa", 8, four_nodes), (Texts{"0-1", "0-1", "2-3", "2-3", "4-5", "4-5", "6-7", "6-7"}));
}

TEST(Binding, KeepsToTheCoresThatThisProcessMayUse) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int last = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &before)) last = core;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const auto cores = cores_of_ranks("core", 2);
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_EQ(cores, (std::vector<Cores>{{last}, {last}}));
}

TEST(Binding, NamesCoresInRanges) {
  EXPECT_EQ(cores_text({}), "");
  EXPECT_EQ(cores_text({3}), "3");
  EXPECT_EQ(cores_text({0, 1, 2, 5, 8, 9}), "0-2,5,8-9");
}

}  // namespace
}  // namespace hookline
