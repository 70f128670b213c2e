#include "launcher/supervise/failure_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hookline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(FailureNotes, UseGlobalRankNumbers) {
  FailureNotes notes(/*first_rank=*/4);
  notes.finished(3, 12);
  notes.stalled({0, 1}, {2});
  notes.failed(/*was_waiting=*/true, {1});
  const Failure failure = notes.failure(RootCause{2, Exited{7}}, /*step=*/5);
  EXPECT_EQ(failure.cause.rank, 6);
  EXPECT_EQ(failure.cause.outcome, Outcome(Exited{7}));
  EXPECT_THAT(failure.waiting_ranks, ElementsAre(4, 5));
  EXPECT_THAT(failure.ranks_like_it, ElementsAre(6));
  EXPECT_THAT(failure.stopped_ranks, ElementsAre(5));
  ASSERT_EQ(failure.finished_ranks.size(), 1u);
  EXPECT_EQ(failure.finished_ranks[0].rank, 7);
  EXPECT_EQ(failure.finished_ranks[0].step, 12);
  EXPECT_TRUE(failure.was_waiting);
  EXPECT_FALSE(failure.has_told_no_step);
}

TEST(FailureNotes, NameJustTheFailedRankIfNothingWasNoted) {
  const Failure failure = FailureNotes(0).failure(RootCause{1, Signalled{9}}, std::nullopt);
  EXPECT_EQ(failure.cause.rank, 1);
  EXPECT_TRUE(failure.has_told_no_step);
  EXPECT_FALSE(failure.was_waiting);
  EXPECT_THAT(failure.finished_ranks, IsEmpty());
  EXPECT_THAT(failure.stopped_ranks, IsEmpty());
  EXPECT_THAT(failure.waiting_ranks, IsEmpty());
}

TEST(FailureNotes, KeepTheOrderInWhichRanksFinished) {
  FailureNotes notes(0);
  notes.finished(2, 9);
  notes.finished(0, std::nullopt);
  const Failure failure = notes.failure(RootCause{1, Exited{1}}, 3);
  ASSERT_EQ(failure.finished_ranks.size(), 2u);
  EXPECT_EQ(failure.finished_ranks[0].rank, 2);
  EXPECT_EQ(failure.finished_ranks[1].rank, 0);
  EXPECT_EQ(failure.finished_ranks[1].step, std::nullopt);
}

}  // namespace
}  // namespace hookline
