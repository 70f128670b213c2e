#include "launcher/supervise/run_watch.h"

#include <gtest/gtest.h>

namespace hookline {
namespace {

using std::chrono::seconds;
using WatchTime = RunWatch::Clock::time_point;

constexpr WatchTime kBegin = WatchTime(std::chrono::hours(1));
constexpr std::chrono::duration<double> kNotWatched{0};

TEST(RunWatch, ReportsAnEarlyExitAfterItsTimeLimit) {
  RunWatch watch(seconds(5), kNotWatched);
  watch.exited_early(1, kBegin);
  EXPECT_EQ(watch.next_look({}), kBegin + seconds(5));
  EXPECT_EQ(watch.take_early_exit(kBegin + seconds(4)), std::nullopt);
  EXPECT_EQ(watch.take_early_exit(kBegin + seconds(5)), 1);
  EXPECT_EQ(watch.take_early_exit(kBegin + seconds(6)), std::nullopt) << "a single time";
  EXPECT_EQ(watch.next_look({}), WatchTime::max());
}

TEST(RunWatch, ReportsOnlyTheFirstRankThatExitedEarly) {
  RunWatch watch(seconds(5), kNotWatched);
  watch.exited_early(2, kBegin);
  watch.exited_early(0, kBegin + seconds(1));
  EXPECT_EQ(watch.take_early_exit(kBegin + seconds(10)), 2);
  watch.exited_early(1, kBegin + seconds(11));
  EXPECT_EQ(watch.take_early_exit(kBegin + seconds(20)), std::nullopt);
}

TEST(RunWatch, CountsAStallFromTheLastFinishedStep) {
  const RunWatch watch(kNotWatched, seconds(30));
  EXPECT_FALSE(watch.is_stalled({}, kBegin + seconds(1000))) << "no rank has reported a step";
  EXPECT_EQ(watch.next_look({}), WatchTime::max());
  EXPECT_FALSE(watch.is_stalled(kBegin, kBegin + seconds(29)));
  EXPECT_TRUE(watch.is_stalled(kBegin, kBegin + seconds(30)));
  EXPECT_EQ(watch.next_look(kBegin), kBegin + seconds(30));
}

TEST(RunWatch, LooksAtWhicheverIsDueFirst) {
  RunWatch watch(seconds(5), seconds(30));
  watch.exited_early(0, kBegin);
  EXPECT_EQ(watch.next_look(kBegin), kBegin + seconds(5));
  EXPECT_EQ(watch.next_look(kBegin - seconds(28)), kBegin + seconds(2));
}

TEST(RunWatch, WatchesNothingWithoutALimit) {
  RunWatch watch(kNotWatched, kNotWatched);
  watch.exited_early(0, kBegin);
  EXPECT_EQ(watch.take_early_exit(kBegin + seconds(1000)), std::nullopt);
  EXPECT_FALSE(watch.is_stalled(kBegin, kBegin + seconds(1000)));
  EXPECT_EQ(watch.next_look(kBegin), WatchTime::max());
}

TEST(RunWatch, AcceptsALimitBeyondTheClocksRange) {
  const RunWatch watch(kNotWatched, std::chrono::duration<double>(1e300));
  EXPECT_FALSE(watch.is_stalled(kBegin, kBegin + std::chrono::hours(24)));
  EXPECT_GT(watch.next_look(kBegin), kBegin + std::chrono::hours(24));
}

}  // namespace
}  // namespace hookline
