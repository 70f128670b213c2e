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

std::string hello(const std::string& node) { return to_line(Up{node, NodeHello{}}); }

/// A run whose store the node "own" serves; nodes are lost after ten seconds without a heartbeat.
NodeLives lives_of(const std::vector<std::string>& nodes) {
  NodeLives lives("own", seconds(10));
  for (const std::string& node : nodes) lives.heard(hello(node), kStart);
  return lives;
}

TEST(NodeLives, WatchOtherNodesFromTheirFirstMessage) {
  EXPECT_THAT(lives_of({"b", "own", "a"}).watched(), ElementsAre("a", "b"));
  NodeLives lives = lives_of({});
  lives.heard(to_line(Up{"a", StorePort{1, 2}}), kStart);
  EXPECT_THAT(lives.watched(), ElementsAre("a")) << "any message will do";
}

/// The nodes lost after reading `heartbeat` of node "a".
std::vector<std::string> lost_with(NodeLives& lives, const std::string& heartbeat, NodeLives::Time now) {
  lives.read("a", heartbeat, now);
  return lives.take_lost(now);
}

TEST(NodeLives, LoseANodeWhoseHeartbeatStopsChanging) {
  NodeLives lives = lives_of({"a"});
  EXPECT_THAT(lost_with(lives, "1", kStart + seconds(1)), IsEmpty());
  EXPECT_THAT(lost_with(lives, "2", kStart + seconds(12)), IsEmpty()) << "it has changed";
  EXPECT_THAT(lost_with(lives, "2", kStart + seconds(22)), IsEmpty());
  EXPECT_THAT(lost_with(lives, "2", kStart + seconds(23)), ElementsAre("a"));
  EXPECT_THAT(lives.watched(), IsEmpty());
  EXPECT_THAT(lives.take_lost(kStart + seconds(99)), IsEmpty()) << "it is lost once";
}

TEST(NodeLives, CountFromTheFirstMessageOfANodeThatSendsNoHeartbeat) {
  NodeLives lives = lives_of({"a"});
  EXPECT_THAT(lives.take_lost(kStart + seconds(10)), IsEmpty());
  EXPECT_THAT(lives.take_lost(kStart + seconds(11)), ElementsAre("a"));
}

TEST(NodeLives, StopWatchingANodeThatHasLeft) {
  NodeLives lives = lives_of({"a", "b"});
  lives.heard(to_line(Up{"a", Leave{}}), kStart);
  EXPECT_THAT(lives.watched(), ElementsAre("b"));
}

TEST(NodeLives, TakeALostNodeBackOnHello) {
  NodeLives lives = lives_of({"a"});
  EXPECT_THAT(lives.take_lost(kStart + seconds(11)), ElementsAre("a"));
  lives.heard(to_line(Up{"a", NodeEnd{}}), kStart + seconds(12));
  EXPECT_THAT(lives.watched(), IsEmpty()) << "only a hello brings it back";
  lives.heard(hello("a"), kStart + seconds(20));
  EXPECT_THAT(lives.watched(), ElementsAre("a"));
  EXPECT_THAT(lives.take_lost(kStart + seconds(30)), IsEmpty());
}

TEST(NodeLives, IgnoreInvalidMessages) {
  NodeLives lives = lives_of({});
  for (const char* line : {"", "no JSON", "[]", "{}", R"({"from": 3, "is": "hello"})", R"({"from": ""})"})
    lives.heard(line, kStart);
  EXPECT_THAT(lives.watched(), IsEmpty());
}

}  // namespace
}  // namespace hookline
