#include "libexec/rendezvous/patience.h"

#include <gtest/gtest.h>

namespace hookline {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Patience::Time kBegin = Patience::Time(std::chrono::hours(1));

TEST(Patience, IsTheTimeoutAsLongAsHeartbeatsComeInTime) {
  EXPECT_EQ(beat_of(seconds(6)), seconds(2));
  EXPECT_EQ(beat_of(seconds(5)), seconds(2));
  EXPECT_EQ(beat_of(seconds(1)), milliseconds(400));
  EXPECT_EQ(beat_of(seconds(60)), seconds(2));
  Patience patience(seconds(6));
  for (int beat = 0; beat < 10; ++beat) patience.hear(kBegin + beat * seconds(2));
  EXPECT_EQ(patience.limit(), seconds(6));
}

TEST(Patience, GrowsWithHowLateTheyCome) {
  Patience patience(seconds(6));
  patience.hear(kBegin);
  patience.hear(kBegin + seconds(3));
  EXPECT_EQ(patience.limit(), seconds(9)) << "one second too late";
  patience.hear(kBegin + seconds(3 + 2 + 5));
  EXPECT_EQ(patience.limit(), seconds(12)) << "twice the timeout at most";
}

TEST(Patience, ForgetsWhatWasLateLongAgo) {
  Patience patience(seconds(6));
  patience.hear(kBegin);
  auto now = kBegin + seconds(4);
  patience.hear(now);
  for (int beat = 0; beat < 50; ++beat) patience.hear(now += seconds(2));
  EXPECT_LT(patience.limit(), seconds(6) + milliseconds(20));
}

TEST(Patience, RemembersALateHeartbeatThatABurstFollows) {
  Patience patience(seconds(6));
  patience.hear(kBegin);
  for (int i = 0; i < 50; ++i) patience.hear(kBegin + seconds(4) + milliseconds(i));
  EXPECT_EQ(patience.limit(), seconds(12));
}

TEST(Patience, DoesNotCountAPauseOfItsOwn) {
  Patience patience(seconds(6));
  patience.hear(kBegin);
  patience.begin_anew();
  patience.hear(kBegin + seconds(60));
  EXPECT_EQ(patience.limit(), seconds(6));
}

}  // namespace
}  // namespace hookline
