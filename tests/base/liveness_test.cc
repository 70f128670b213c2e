// Which members are late and which are lost; the tests supply the times.
#include "base/liveness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace hookline {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The nodes that have been silent for longer than `limit`.
std::vector<std::string> late(const Liveness<std::string>& nodes, seconds limit,
                              Liveness<std::string>::Time now) {
  std::vector<std::string> names;
  for (const auto& [node, silence] : nodes.late(limit, now)) {
    EXPECT_GT(silence, limit);
    names.push_back(node);
  }
  return names;
}

const Liveness<int>::Time kStart = Liveness<int>::Time{} + std::chrono::hours(1);

TEST(Liveness, CountsAChangedHeartbeatAndNotARepeatedOne) {
  Liveness<int> ranks;
  ranks.hear(1, "1", kStart);
  ranks.hear(1, "2", kStart + seconds(1));
  ranks.hear(1, "2", kStart + seconds(3));
  const auto silence = ranks.longest_silence(kStart + seconds(4));
  ASSERT_TRUE(silence);
  EXPECT_EQ(silence->member, 1);
  EXPECT_EQ(silence->length, seconds(3));
  EXPECT_EQ(ranks.heartbeat(1), "2");
}

TEST(Liveness, FindsTheLongestSilenceAndOfEqualOnesTheFirst) {
  Liveness<int> ranks;
  EXPECT_FALSE(ranks.longest_silence(kStart)) << "nobody is known";
  for (const int rank : {3, 1, 2}) ranks.hear(rank, "1", kStart);
  EXPECT_EQ(ranks.longest_silence(kStart)->member, 1);
  ranks.hear(1, "2", kStart + seconds(1));
  EXPECT_EQ(ranks.longest_silence(kStart + seconds(2))->member, 2);
  EXPECT_EQ(ranks.longest_silence(kStart + seconds(2))->length, seconds(2));
}

TEST(Liveness, CallsAMemberLateOnlyAfterTheLimit) {
  Liveness<std::string> nodes;
  nodes.expect("b", kStart);
  nodes.hear("a", "1", kStart);
  EXPECT_THAT(late(nodes, seconds(2), kStart + seconds(2)), IsEmpty());
  EXPECT_THAT(late(nodes, seconds(2), kStart + milliseconds(2001)), ElementsAre("a", "b"));
  nodes.hear("b", "1", kStart + seconds(2));
  EXPECT_THAT(late(nodes, seconds(2), kStart + seconds(3)), ElementsAre("a"));
}

TEST(Liveness, IgnoresALostMemberUntilItRejoins) {
  Liveness<std::string> nodes;
  nodes.hear("a", "7", kStart);
  nodes.lose("a");
  nodes.expect("a", kStart + seconds(1));
  nodes.hear("a", "8", kStart + seconds(1));
  EXPECT_TRUE(nodes.knows("a"));
  EXPECT_THAT(nodes.present(), IsEmpty());
  EXPECT_THAT(late(nodes, seconds(0), kStart + seconds(9)), IsEmpty()) << "it is lost once";
  EXPECT_FALSE(nodes.longest_silence(kStart + seconds(9)));

  nodes.join("a", kStart + seconds(10));
  EXPECT_THAT(nodes.present(), ElementsAre("a"));
  EXPECT_EQ(nodes.heartbeat("a"), "");
  EXPECT_EQ(nodes.longest_silence(kStart + seconds(12))->length, seconds(2));
  nodes.hear("a", "7", kStart + seconds(13));
  EXPECT_THAT(late(nodes, seconds(2), kStart + seconds(14)), IsEmpty())
      << "its first heartbeat may be the one from before";
}

TEST(Liveness, ExpectingAKnownMemberDoesNotRestartItsSilence) {
  Liveness<std::string> nodes;
  nodes.expect("a", kStart);
  nodes.expect("a", kStart + seconds(5));
  EXPECT_EQ(nodes.longest_silence(kStart + seconds(6))->length, seconds(6));
}

TEST(Liveness, RestartsAllSilencesAfterAGapInWatching) {
  Liveness<int> ranks;
  ranks.hear(1, "1", kStart);
  ranks.hear(2, "1", kStart);
  ranks.begin_anew(kStart + seconds(60));
  ranks.hear(1, "1", kStart + seconds(60));
  EXPECT_EQ(ranks.longest_silence(kStart + seconds(61))->length, seconds(1));
}

}  // namespace
}  // namespace hookline
