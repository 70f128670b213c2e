#include "launcher/supervise/rank_stop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

namespace hookline {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using StopTime = RankStop::Clock::time_point;

constexpr StopTime kAsked = StopTime(std::chrono::hours(1));

/// A stop with a grace period of ten seconds that records the signals it sends.
struct StopOfNobody {
  std::vector<std::string> sent;
  RankStop stop{{.to_all = [this](int signal) { sent.push_back("all " + std::to_string(signal)); },
                 .to_groups = [this](int signal) { sent.push_back("groups " + std::to_string(signal)); }},
                seconds(10)};
};

std::string to_all(int signal) { return "all " + std::to_string(signal); }
std::string to_groups(int signal) { return "groups " + std::to_string(signal); }

TEST(RankStop, ContinuesRanksThatAreStoppedAndGivesThemTheGracePeriod) {
  StopOfNobody ranks;
  EXPECT_EQ(ranks.stop.deadline(), StopTime::max());
  ranks.stop.ask(SIGINT, kAsked);
  EXPECT_THAT(ranks.sent, ElementsAre(to_all(SIGINT), to_groups(SIGCONT)));
  EXPECT_EQ(ranks.stop.deadline(), kAsked + seconds(10));
}

TEST(RankStop, SendsDeferredSignalsOnRelease) {
  StopOfNobody ranks;
  ranks.stop.hold();
  ranks.stop.ask(SIGTERM, kAsked);
  EXPECT_THAT(ranks.sent, IsEmpty());
  EXPECT_EQ(ranks.stop.deadline(), StopTime::max());
  ranks.stop.release(kAsked + seconds(60));
  EXPECT_FALSE(ranks.stop.is_held());
  EXPECT_THAT(ranks.sent, ElementsAre(to_all(SIGTERM), to_groups(SIGCONT)));
  EXPECT_EQ(ranks.stop.deadline(), kAsked + seconds(70)) << "the grace period begins with the signal";
}

TEST(RankStop, SendsNothingOnReleaseIfNothingWasDeferred) {
  StopOfNobody ranks;
  ranks.stop.hold();
  ranks.stop.release(kAsked);
  EXPECT_THAT(ranks.sent, IsEmpty());
}

TEST(RankStop, KillsWhileHeldAndSendsNothingAfterwards) {
  StopOfNobody ranks;
  ranks.stop.hold();
  ranks.stop.ask(SIGTERM, kAsked);
  ranks.stop.kill(kAsked + seconds(1));
  const StopTime deadline = ranks.stop.deadline();
  EXPECT_GT(deadline, kAsked + seconds(1));
  ranks.stop.release(kAsked + seconds(2));
  EXPECT_THAT(ranks.sent, ElementsAre(to_all(SIGKILL)));
  EXPECT_EQ(ranks.stop.deadline(), deadline);
}

}  // namespace
}  // namespace hookline
