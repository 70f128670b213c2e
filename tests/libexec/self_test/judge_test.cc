#include "libexec/self_test/check_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace hookline {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Judge, CountsTheFilesThatAreOpenBeforeTheRanksConnect) {
  EXPECT_NO_THROW(expect_enough_files(9, 43, 3));
  try {
    expect_enough_files(9, 42, 3);
    ADD_FAILURE() << "was accepted";
  } catch (const TooFewFiles& error) {
    EXPECT_STREQ(error.what(),
                 "too many open files would be needed: a rank may have 42, and 3 ranks take about 43 each");
    EXPECT_THAT(advice_for(error, error.what()), HasSubstr("ulimit -n"));
  }
  EXPECT_THROW(expect_enough_files(29, 62, 3), TooFewFiles);
}

TEST(Judge, WarnsIfRanksUseOverHalfOfTheOpenFiles) {
  Check check = judge_open_files(500, 1024, 4);
  EXPECT_EQ(check.verdict, Verdict::ok);
  EXPECT_EQ(check.found, "500 of 1024 at most, with 4 ranks");
  EXPECT_EQ(check.advice, "");
  check = judge_open_files(513, 1024, 4);
  EXPECT_EQ(check.verdict, Verdict::warning);
  EXPECT_THAT(check.advice, HasSubstr("ulimit -n 65536"));
}

TEST(Judge, RequiresSharedMemoryOnlyForNccl) {
  Check check = judge_shared_memory(64'000'000, false, 8);
  EXPECT_EQ(check.verdict, Verdict::ok);
  EXPECT_EQ(check.found, "64 MB free in /dev/shm, which these ranks do not use");
  EXPECT_EQ(judge_shared_memory(64'000'000, true, 1).verdict, Verdict::ok);
  check = judge_shared_memory(64'000'000, true, 8);
  EXPECT_EQ(check.verdict, Verdict::warning);
  EXPECT_EQ(check.found, "64 MB free in /dev/shm, and NCCL may want 512 MB");
  EXPECT_THAT(check.advice, HasSubstr("--shm-size=1g"));
  EXPECT_EQ(judge_shared_memory(2'000'000'000, true, 8).verdict, Verdict::ok);
}

TEST(Judge, NamesTheRankOfAnotherBuild) {
  EXPECT_EQ(judge_builds({"torch 2.11.0, hookline 0.1.0"}).found, "torch 2.11.0, hookline 0.1.0");
  EXPECT_EQ(judge_builds({"a", "a"}).found, "a everywhere");
  const Check check = judge_builds({"a", "a", "b"});
  EXPECT_EQ(check.verdict, Verdict::failed);
  EXPECT_EQ(check.found, "rank 0 has a, and rank 2 has b");
}

TEST(Judge, ComparesLinksOfTheSameKind) {
  const auto link = [](int from, int to, bool same, double rate) { return Link{from, to, same, 1e-5, rate}; };
  // A network is slower than memory within a host; that alone is no reason to warn.
  Check check = judge_links({link(0, 1, true, 2e9), link(2, 3, true, 2e9), link(0, 2, false, 1.2e8)});
  EXPECT_EQ(check.verdict, Verdict::ok);
  EXPECT_EQ(check.found, "median 2 GB/s on one host, 120 MB/s between hosts");
  check = judge_links({link(0, 1, false, 1.2e8), link(0, 2, false, 1.1e8), link(1, 2, false, 1.2e7)});
  EXPECT_EQ(check.verdict, Verdict::warning);
  EXPECT_THAT(check.advice,
              HasSubstr("the link between ranks 1 and 2 reaches 12 MB/s, and the others wait for it"));
  EXPECT_THAT(check.advice, HasSubstr("cable"));
}

TEST(Judge, MeasuresAllPairsOfFewRanksAndSomeOfMany) {
  EXPECT_THAT(pairs_to_measure(1), IsEmpty());
  EXPECT_EQ(pairs_to_measure(3), (std::vector<std::pair<int, int>>{{0, 1}, {0, 2}, {1, 2}}));
  EXPECT_EQ(pairs_to_measure(8).size(), 28u);
  for (const int ranks : {9, 64, 65, 1000}) {
    const auto pairs = pairs_to_measure(ranks);
    EXPECT_EQ(pairs.size(), static_cast<std::size_t>(std::min(ranks, 64)));
    std::set<std::pair<int, int>> once;
    for (const auto& [from, to] : pairs) {
      EXPECT_TRUE(0 <= from && from < to && to < ranks) << from << " " << to;
      EXPECT_TRUE(once.emplace(from, to).second);
    }
  }
}

TEST(Judge, GivesAdviceForKnownErrors) {
  EXPECT_THAT(advice_for("accept: Too many open files"), HasSubstr("ulimit -n"));
  EXPECT_THAT(advice_for("CUDA out of memory. Tried"), HasSubstr("fewer ranks"));
  EXPECT_EQ(advice_for("something new"), "");
  const auto advice_after = [](RunFailed::Cause cause, const std::string& what) {
    return advice_for(RunFailed(what, cause), what);
  };
  EXPECT_THAT(advice_after(RunFailed::Cause::rank_left, "rank 1 is late"), HasSubstr("logs"));
  EXPECT_THAT(advice_after(RunFailed::Cause::rank_silent, "rank 1 is late"), HasSubstr("ping"));
  EXPECT_THAT(advice_after(RunFailed::Cause::error, "an all-reduce failed on rank 1: out of memory"),
              HasSubstr("fewer ranks"));
}

}  // namespace
}  // namespace hookline
