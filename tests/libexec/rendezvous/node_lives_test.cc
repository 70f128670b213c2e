#include "libexec/rendezvous/node_lives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launcher/rendezvous/messages.h"

namespace hookline {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr NodeLives::Time kStart = NodeLives::Time(std::chrono::hours(1));

const std::string kHello = to_line(Up{"", NodeHello{}});

/// Nodes are lost ten seconds after the last frame.
NodeLives lives_of(const std::vector<std::string>& nodes) {
  NodeLives lives(seconds(10));
  for (const std::string& node : nodes) lives.took(node, kHello, kStart);
  return lives;
}

/// The nodes lost when somebody has looked every second from `from` to `to`.
std::vector<std::string> lost_between(NodeLives& lives, seconds from, seconds to) {
  std::vector<std::string> all;
  for (seconds at = from; at <= to; ++at)
    for (const std::string& node : lives.take_lost(kStart + at)) all.push_back(node);
  return all;
}

TEST(NodeLives, WatchNodesFromTheirFirstMessage) {
  EXPECT_THAT(lives_of({"b", "a"}).watched(), ElementsAre("a", "b"));
  NodeLives lives = lives_of({});
  EXPECT_FALSE(lives.heard("a", kStart)) << "it has said nothing yet";
  EXPECT_THAT(lives.watched(), IsEmpty());
  lives.took("a", to_line(Up{"", StorePort{1, 2}}), kStart);
  EXPECT_THAT(lives.watched(), ElementsAre("a")) << "any message will do";
}

TEST(NodeLives, LoseANodeFromWhichNothingArrives) {
  NodeLives lives = lives_of({"a"});
  EXPECT_THAT(lost_between(lives, seconds(0), seconds(9)), IsEmpty());
  EXPECT_FALSE(lives.heard("a", kStart + seconds(9)));
  EXPECT_THAT(lost_between(lives, seconds(10), seconds(19)), IsEmpty());
  EXPECT_THAT(lost_between(lives, seconds(20), seconds(30)), ElementsAre("a")) << "it is lost once";
  EXPECT_THAT(lives.watched(), IsEmpty());
  EXPECT_TRUE(lives.heard("a", kStart + seconds(31))) << "it is back";
  EXPECT_FALSE(lives.heard("a", kStart + seconds(32)));
  EXPECT_THAT(lost_between(lives, seconds(33), seconds(42)), IsEmpty());
}

TEST(NodeLives, ArePatientWithANodeWhoseHeartbeatsComeLate) {
  NodeLives lives = lives_of({"busy", "idle"});
  for (const int at : {0, 5, 10}) lives.heard("busy", kStart + seconds(at));  // one is due every two seconds
  for (int at = 0; at <= 10; at += 2) lives.heard("idle", kStart + seconds(at));
  EXPECT_THAT(lost_between(lives, seconds(0), seconds(20)), IsEmpty());
  EXPECT_THAT(lost_between(lives, seconds(21), seconds(29)), ElementsAre("idle"));
  EXPECT_THAT(lost_between(lives, seconds(30), seconds(40)), ElementsAre("busy"));
}

TEST(NodeLives, LoseNobodyAfterThisProcessWasStopped) {
  NodeLives lives = lives_of({"a"});
  EXPECT_THAT(lives.take_lost(kStart), IsEmpty());
  EXPECT_THAT(lives.take_lost(kStart + seconds(3600)), IsEmpty()) << "this process was stopped for an hour";
  EXPECT_THAT(lost_between(lives, seconds(3601), seconds(3610)), IsEmpty());
  EXPECT_THAT(lost_between(lives, seconds(3611), seconds(3612)), ElementsAre("a"));
}

TEST(NodeLives, StopWatchingANodeThatHasLeft) {
  NodeLives lives = lives_of({"a", "b"});
  lives.took("a", to_line(Up{"", Leave{}}), kStart);
  EXPECT_THAT(lives.watched(), ElementsAre("b"));
  EXPECT_FALSE(lives.heard("a", kStart)) << "its last heartbeat does not bring it back";
}

TEST(NodeLives, IgnoreInvalidMessages) {
  NodeLives lives = lives_of({"a"});
  for (const char* line : {"", "no JSON", "[]", "{}", R"({"is": 3})", R"({"is": ""})"})
    lives.took("a", line, kStart);
  EXPECT_THAT(lives.watched(), ElementsAre("a"));
}

}  // namespace
}  // namespace hookline
