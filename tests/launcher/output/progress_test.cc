#include "launcher/output/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/output/columns.h"

namespace hookline {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Progress::Time kStart{};

RankReport report(int rank, std::int64_t step, std::optional<double> loss = {},
                  std::optional<std::int64_t> sent = {}) {
  return {.rank = rank, .step = step, .loss = loss, .sent_bytes = sent};
}

TEST(RankReport, IsReadFromAMessage) {
  const auto whole = parse_report("rank=1 step=12 loss=0.25 sent=1048576 more=later");
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->rank, 1);
  EXPECT_EQ(whole->step, 12);
  EXPECT_EQ(whole->loss, 0.25);
  EXPECT_EQ(whole->sent_bytes, 1048576);
  const auto least = parse_report("rank=0 step=0\n");
  ASSERT_TRUE(least);
  EXPECT_FALSE(least->loss);
  EXPECT_TRUE(parse_report("rank=0 step=1 loss=nan")) << "a loss that is not a number is news";
  for (const char* bad : {"", "rank=1", "step=1", "rank=x step=1", "rank=1 step=", "rank=1 step=2.5",
                          "rank=1 step=1 loss=", "\x01\xff"})
    EXPECT_FALSE(parse_report(bad)) << bad;
}

TEST(RankReport, HasTheTimesOfSteps) {
  const auto report = parse_report("rank=0 step=3 timed=4.5 waited=0.75");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->timed_seconds, 4.5);
  EXPECT_EQ(report->waited_seconds, 0.75);
  for (const char* bad : {"rank=0 step=3 timed=x", "rank=0 step=3 waited=-1", "rank=0 step=3 timed=nan"})
    EXPECT_FALSE(parse_report(bad)) << bad;
}

TEST(Progress, KnowsTheRankThatWaitedTheLeastSinceTheLastLook) {
  Progress progress(2, 6);
  const auto take = [&](int rank, double timed, double waited) {
    RankReport told = report(rank, 1);
    told.timed_seconds = timed;
    told.waited_seconds = waited;
    progress.take(told, kStart);
  };
  take(6, 10, 8);
  EXPECT_FALSE(progress.take_busiest()) << "rank 7 has said nothing";
  take(6, 20, 16);
  take(7, 10, 1);
  auto busiest = progress.take_busiest();
  ASSERT_TRUE(busiest);
  EXPECT_EQ(busiest->rank, 1);
  EXPECT_DOUBLE_EQ(busiest->share, 0.9);
  EXPECT_FALSE(progress.take_busiest()) << "nothing new";
  take(6, 30, 17);
  take(7, 20, 5);
  busiest = progress.take_busiest();
  ASSERT_TRUE(busiest);
  EXPECT_EQ(busiest->rank, 0);
  EXPECT_DOUBLE_EQ(busiest->share, 0.9);
  take(6, 1, 0);
  take(7, 30, 5);
  EXPECT_FALSE(progress.take_busiest()) << "rank 6 counts anew";
}

TEST(Progress, KnowsWhenARankLastFinishedAStep) {
  Progress progress(2);
  EXPECT_FALSE(progress.last_step());
  EXPECT_TRUE(progress.take(report(0, 1), kStart + seconds(1)));
  EXPECT_TRUE(progress.take(report(1, 1), kStart + seconds(2)));
  EXPECT_FALSE(progress.take(report(0, 1), kStart + seconds(9)))
      << "the same step again, and not its first report";
  EXPECT_FALSE(progress.take(report(7, 5), kStart + seconds(9))) << "nobody's";
  EXPECT_EQ(progress.last_step(), kStart + seconds(2));
  progress.ended(1);
  EXPECT_EQ(progress.last_step(), kStart + seconds(1));
  progress.ended(0);
  EXPECT_FALSE(progress.last_step());
}

TEST(Progress, NamesTheRankThatTheOthersWaitFor) {
  Progress progress(4);
  EXPECT_FALSE(progress.behind());
  progress.take(report(0, 12), kStart + seconds(1));
  progress.take(report(1, 11), kStart + seconds(3));
  progress.take(report(3, 11), kStart + seconds(2));
  EXPECT_EQ(progress.behind(), 3);
  EXPECT_EQ(progress.places(), "rank 0 at step 12, ranks 1 and 3 at step 11, rank 2 not heard from");
  progress.ended(3);
  EXPECT_EQ(progress.behind(), 1);
  EXPECT_EQ(progress.places(), "rank 0 at step 12, rank 1 at step 11, rank 2 not heard from");
}

TEST(Progress, NamesASilentRankOnceOthersWaitInACollective) {
  Progress progress(3);
  progress.take(report(0, 0), kStart);
  progress.take(report(1, 0), kStart);
  EXPECT_EQ(progress.behind(), 0) << "rank 2 may be one that never reports";
  RankReport waiting = report(0, 0);
  waiting.is_waiting = true;
  progress.take(waiting, kStart + seconds(1));
  EXPECT_EQ(progress.behind(), 2);
  progress.ended(2);
  EXPECT_EQ(progress.behind(), 1);
}

TEST(Progress, ListsTheRanksStuckLikeTheNamedOne) {
  Progress progress(4);
  for (int rank = 0; rank < 4; ++rank) progress.take(report(rank, 5), kStart);
  EXPECT_THAT(progress.beside(0), ::testing::ElementsAre(1, 2, 3));
  RankReport waiting = report(2, 5);
  waiting.is_waiting = true;
  progress.take(waiting, kStart);
  progress.ended(3);
  EXPECT_THAT(progress.beside(0), ::testing::ElementsAre(1));
  EXPECT_THAT(progress.beside(2), ::testing::IsEmpty());
}

TEST(Progress, NamesAFewOfManyRanks) {
  Progress progress(12);
  for (int rank = 0; rank < 12; ++rank) progress.take(report(rank, 3), kStart);
  EXPECT_EQ(progress.places(), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 4 more at step 3");
}

TEST(Progress, FitsOnOneLine) {
  Progress progress(2);
  EXPECT_EQ(progress.line(kStart, kStart + seconds(3)), "0:03 · 2 of 2 ranks");
  progress.take(report(0, 10, 0.5, 0), kStart + seconds(4));
  EXPECT_EQ(progress.line(kStart, kStart + seconds(4)), "0:04 · 2 of 2 ranks · step 10 · loss 0.5");
  progress.take(report(1, 11, 9.0, 0), kStart + seconds(5));
  progress.take(report(0, 80, 0.123456, 15'000'000), kStart + seconds(6));
  progress.take(report(0, 80), kStart + seconds(6));  // no news
  progress.ended(1);
  EXPECT_EQ(progress.line(kStart, kStart + seconds(6)),
            "0:06 · 1 of 2 ranks · step 80 · 35 steps/s · loss 0.1235 · 7.5 MB/s");
  EXPECT_EQ(progress.line(kStart, kStart + seconds(9)),
            "0:09 · 1 of 2 ranks · step 80 · 14 steps/s · loss 0.1235 · 3 MB/s")
      << "nothing has come since";
  EXPECT_EQ(progress.line(kStart, kStart + seconds(3723)), "1:02:03 · 1 of 2 ranks · step 80 · loss 0.1235");
}

TEST(Progress, TakesRatesOverTheLastSeconds) {
  Progress progress(1);
  for (int i = 0; i <= 400; ++i)  // 10 steps/s for 20 s, then 2 steps/s for 20 s
    progress.take(report(0, i <= 200 ? i : 200 + (i - 200) / 5), kStart + milliseconds(100) * i);
  EXPECT_EQ(progress.line(kStart, kStart + seconds(40)), "0:40 · 1 of 1 rank · step 240 · 2 steps/s");
}

TEST(StatusLine, IsCutToWholeParts) {
  const std::string line = "0:06 · 2 of 2 ranks · step 139";
  EXPECT_EQ(cut_to_columns(line, 30, " · "), line);
  EXPECT_EQ(cut_to_columns(line, 29, " · "), "0:06 · 2 of 2 ranks");
  EXPECT_EQ(cut_to_columns(line, 19, " · "), "0:06 · 2 of 2 ranks");
  EXPECT_EQ(cut_to_columns(line, 18, " · "), "0:06");
  EXPECT_EQ(cut_to_columns(line, 3, " · "), "0:0");
  EXPECT_EQ(cut_to_columns("ÄÖÜ", 2, " · "), "ÄÖ");
}

}  // namespace
}  // namespace hookline
