#include "libexec/rendezvous/lines/line_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <string>
#include <vector>

namespace hookline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = LineStream::Kind;

SharedLine line(const std::string& text) { return std::make_shared<const std::string>(text); }

LineStream::Frame parsed(const std::string& bytes) {
  const auto frame = LineStream::parse(bytes);
  EXPECT_TRUE(frame) << bytes;
  return frame.value_or(LineStream::Frame());
}

TEST(LineStream, WritesFramesThatItReads) {
  LineStream stream;
  EXPECT_EQ(stream.send(line("first\nand more")), "L1\nfirst\nand more");
  EXPECT_EQ(stream.send(line("")), "L2\n");
  EXPECT_TRUE(stream.takes(parsed("L1\na")));
  EXPECT_EQ(stream.count(Kind::heartbeat), "B1");
  EXPECT_EQ(stream.count(Kind::resume), "R1");
  EXPECT_EQ(stream.count(Kind::answer), "A1");
  const auto first = parsed("L1\nfirst\nand more");
  EXPECT_EQ(first.number, 1U);
  EXPECT_EQ(first.line, "first\nand more");
  const auto answer = parsed("A12");
  EXPECT_EQ(answer.kind, Kind::answer);
  EXPECT_EQ(answer.received, 12U);
  EXPECT_EQ(parsed("R12").kind, Kind::resume);
}

TEST(LineStream, ReadsNothingElse) {
  const std::vector<std::string> others = {"",
                                           "L",
                                           "L1",
                                           "L\n",
                                           "Lx\nline",
                                           "L-1\nline",
                                           "L99999999999999999999\nline",
                                           "B",
                                           "B 1",
                                           "B1 ",
                                           "B1 2",
                                           "B1\n",
                                           "A-1",
                                           "A99999999999999999999",
                                           "X1",
                                           "GET / HTTP/1.1\r\n",
                                           std::string(2, '\0')};
  for (const std::string& bytes : others) EXPECT_FALSE(LineStream::parse(bytes)) << bytes;
}

TEST(LineStream, TakesEachLineOnceAndInOrder) {
  LineStream stream;
  EXPECT_FALSE(stream.takes(parsed("L2\nb"))) << "the first is missing";
  EXPECT_TRUE(stream.takes(parsed("L1\na")));
  EXPECT_FALSE(stream.takes(parsed("L1\na"))) << "it came twice";
  EXPECT_TRUE(stream.takes(parsed("L2\nb")));
  EXPECT_EQ(stream.count(Kind::heartbeat), "B2");
}

TEST(LineStream, KeepsWhatTheOtherSideHasNotReceived) {
  LineStream stream;
  for (const char* text : {"a", "b", "c"}) stream.send(line(text));
  EXPECT_THAT(stream.unreceived(), ElementsAre("L1\na", "L2\nb", "L3\nc"));
  stream.heard(1);
  EXPECT_THAT(stream.unreceived(), ElementsAre("L2\nb", "L3\nc"));
  stream.heard(9);  // impossible: only three lines were sent
  EXPECT_FALSE(stream.is_delivered());
  stream.heard(3);
  EXPECT_TRUE(stream.is_delivered());
  EXPECT_THAT(stream.unreceived(), IsEmpty());
}

TEST(LineStream, NoticesThatTheOtherSideIsAnotherProcess) {
  LineStream ours;
  ours.send(std::make_shared<const std::string>("first"));
  ours.send(std::make_shared<const std::string>("second"));
  EXPECT_TRUE(ours.heard(1));
  EXPECT_TRUE(ours.heard(1));
  EXPECT_FALSE(ours.heard(0)) << "a side that has received one line never reports none";
  EXPECT_TRUE(ours.heard(2));
}

TEST(LineStream, ReplacesForgottenLinesByEmptyOnes) {
  LineStream stream;
  stream.send(line("a"));
  stream.forget();
  EXPECT_THAT(stream.unreceived(), ElementsAre("L1\n"));
  EXPECT_EQ(stream.send(line("b")), "L2\nb") << "their numbers stay taken";
}

// The connection breaks at random, which loses what is on its way, and a new one begins with the receiver's
// counts.
TEST(LineStream, DeliversEverythingOverConnectionsThatBreak) {
  std::mt19937 random(7);
  LineStream here, there;
  std::vector<std::string> sent, taken;
  std::deque<std::string> on_the_way;
  for (int turn = 0; turn < 5000; ++turn) {
    if (turn < 3000 && random() % 3 == 0) {
      sent.push_back(std::to_string(turn));
      on_the_way.push_back(here.send(line(sent.back())));
    }
    if (random() % 7 == 0) here.heard(parsed(there.count(Kind::answer)).received);
    if (random() % 100 == 0) {
      on_the_way.clear();
      here.heard(parsed(there.count(Kind::resume)).received);
      for (const std::string& again : here.unreceived()) on_the_way.push_back(again);
    }
    if (on_the_way.empty()) continue;
    const auto frame = parsed(on_the_way.front());
    on_the_way.pop_front();
    if (there.takes(frame)) taken.push_back(frame.line);
  }
  here.heard(parsed(there.count(Kind::answer)).received);
  EXPECT_TRUE(here.is_delivered());
  EXPECT_EQ(taken, sent);
}

}  // namespace
}  // namespace hookline
