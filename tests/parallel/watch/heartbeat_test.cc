// The contents of heartbeats, and when a rank counts as lost.
#include "parallel/watch/heartbeat.h"

#include <gtest/gtest.h>

#include <chrono>

namespace hookline {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Heartbeat, CarriesThePositionOfItsRank) {
  RankPosition position;
  position.started["fsdp-gathers"] = 3;
  position.waits = RankPosition::Wait{"fsdp-gathers", 2, "step 1 of a sharded model"};
  position.pending = RankPosition::Pending{7, "an all-reduce"};
  const std::string text = heartbeat_text(12, position);
  EXPECT_NE(text, heartbeat_text(13, position)) << "else it would count as silence";
  EXPECT_EQ(leaving_of(text), Leaving::no);
  const RankPosition read = position_of(text);
  EXPECT_EQ(read.started, position.started);
  ASSERT_TRUE(read.waits && read.pending);
  EXPECT_EQ(read.waits->what, "step 1 of a sharded model");
  EXPECT_EQ(read.pending->number, 7u);
  EXPECT_EQ(read.pending->what, "an all-reduce");
}

TEST(Heartbeat, OfARankThatLeavesSaysHowAndHoldsNoPosition) {
  for (const Leaving leaving : {Leaving::left, Leaving::exited}) {
    const std::string text = last_heartbeat(leaving);
    EXPECT_EQ(leaving_of(text), leaving);
    EXPECT_TRUE(position_of(text).started.empty());
    EXPECT_EQ(SilentRank::parse(text).rank, -1);
  }
  EXPECT_TRUE(position_of("").started.empty()) << "of a rank that has not joined yet";
}

TEST(SilentRank, IsReadAsItWasWritten) {
  const SilentRank written{3, milliseconds(1500), Leaving::exited};
  const SilentRank read = SilentRank::parse(written.text(9));
  EXPECT_EQ(read.rank, 3);
  EXPECT_EQ(read.silence, milliseconds(1500));
  EXPECT_EQ(read.leaving, Leaving::exited);
  EXPECT_NE(written.text(9), written.text(10)) << "it is rank 0's heartbeat";
  EXPECT_EQ(SilentRank::parse(SilentRank().text(1)).rank, -1);
}

TEST(SilentRank, IsLostAfterThePeerTimeout) {
  const SilentRank silent{1, milliseconds(10000), Leaving::no};
  EXPECT_TRUE(is_lost(silent, seconds(10), /*suspicious=*/false));
  EXPECT_FALSE(is_lost(silent, milliseconds(10001), /*suspicious=*/false));
  EXPECT_FALSE(is_lost(silent, milliseconds(0), /*suspicious=*/false))
      << "with a timeout of 0, no rank counts as lost";
  EXPECT_FALSE(is_lost(silent, milliseconds(0), /*suspicious=*/true));
  EXPECT_FALSE(is_lost(SilentRank(), seconds(10), /*suspicious=*/true));
}

TEST(SilentRank, IsLostSoonerOnceACollectiveHasFailed) {
  const auto silent = [](int ms) { return SilentRank{1, milliseconds(ms), Leaving::no}; };
  EXPECT_TRUE(is_lost(silent(2500), seconds(10), /*suspicious=*/true));
  EXPECT_FALSE(is_lost(silent(2499), seconds(10), /*suspicious=*/true));
  EXPECT_TRUE(is_lost(silent(2000), seconds(2), /*suspicious=*/true)) << "a shorter timeout still holds";
}

TEST(SilentRank, IsLostAfterASecondIfItAnnouncedLeaving) {
  EXPECT_FALSE(is_lost({1, milliseconds(999), Leaving::left}, seconds(10), /*suspicious=*/false));
  for (const int timeout : {0, 10})
    EXPECT_TRUE(is_lost({1, milliseconds(1000), Leaving::exited}, seconds(timeout), /*suspicious=*/false));
}

TEST(SilentRank, IsNamedInTheErrorWithWhoWaitsForIt) {
  const RunFailed silent = loss_of({3, milliseconds(10520), Leaving::no}, 1, "an all-reduce");
  EXPECT_STREQ(
      silent.what(),
      "rank 3 has sent no heartbeat for 10.5 s, so it is dead, stopped or cut off; rank 1 is waiting for "
      "it in an all-reduce");
  EXPECT_EQ(silent.cause(), RunFailed::Cause::rank_silent);
  const RunFailed left = loss_of({0, milliseconds(1000), Leaving::left}, 2, "a gather");
  EXPECT_STREQ(left.what(), "rank 0 left the run while rank 2 was waiting for it in a gather");
  EXPECT_EQ(left.cause(), RunFailed::Cause::rank_left);
  const RunFailed exited = loss_of({0, milliseconds(1000), Leaving::exited}, 2, "a gather");
  EXPECT_STREQ(exited.what(), "rank 0 exited while rank 2 was waiting for it in a gather");
  EXPECT_EQ(exited.cause(), RunFailed::Cause::rank_left);
}

TEST(RunFailedInTheStore, KeepsItsTextAndItsCause) {
  using enum RunFailed::Cause;
  for (const auto cause : {error, rank_left, rank_silent})
    for (const char* const what : {"", "1 of 2 failed", "an all-reduce failed on rank 1: no\nmemory"}) {
      const RunFailed again = failure_in(to_text(RunFailed(what, cause)));
      EXPECT_STREQ(again.what(), what);
      EXPECT_EQ(again.cause(), cause);
    }
}

}  // namespace
}  // namespace hookline
