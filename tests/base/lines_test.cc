#include "base/lines.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <utility>
#include <vector>

namespace hookline {
namespace {

using Lines = std::vector<std::pair<std::string, std::uint64_t>>;

/// Feeds `text` to `bounded` in chunks of `piece` bytes and returns the lines that come out.
Lines lines_of(const std::string& text, BoundedLines& bounded, std::size_t piece = 3) {
  Lines lines;
  const auto take = [&](const std::string& line, std::uint64_t offset) { lines.emplace_back(line, offset); };
  for (std::size_t at = 0; at < text.size(); at += piece)
    bounded.feed(std::string_view(text).substr(at, piece), take);
  bounded.finish(take);
  return lines;
}

TEST(BoundedLines, SplitAtNewlines) {
  for (std::size_t piece = 1; piece < 12; ++piece) {
    BoundedLines bounded(5);
    EXPECT_EQ(lines_of("one\n\ntwo\nthree", bounded, piece),
              (Lines{{"one", 0}, {"", 4}, {"two", 5}, {"three", 9}}));
    EXPECT_EQ(bounded.skipped_text("f"), "");
  }
}

TEST(BoundedLines, SkipAndCountOverlongLines) {
  for (std::size_t piece = 1; piece < 12; ++piece) {
    BoundedLines bounded(5);
    EXPECT_EQ(lines_of("one\ntoo long\nthree\n", bounded, piece), (Lines{{"one", 0}, {"three", 13}}));
    EXPECT_EQ(bounded.skipped_text("f"), "line 2 of 'f' is longer than 5 B");
    BoundedLines more(5);
    EXPECT_EQ(lines_of("longer\n1\nlonger\nlonger", more, piece), (Lines{{"1", 7}}));
    EXPECT_EQ(more.skipped_text("f"), "line 1 and 2 others of 'f' are longer than 5 B each");
  }
}

TEST(BoundedLines, AreTheSameForAnyChunking) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (unsigned i = random() % 400; i > 0; --i) text += "ab\n"[random() % 3];
    BoundedLines whole(4), parts(4);
    std::istringstream stream(text);
    Lines expected;
    EXPECT_TRUE(read_lines(
        stream, whole,
        [&](const std::string& line, std::uint64_t offset) { expected.emplace_back(line, offset); }, 400));
    EXPECT_EQ(lines_of(text, parts, 1 + random() % 9), expected) << text;
    EXPECT_EQ(parts.skipped().count, whole.skipped().count);
  }
}

TEST(BoundedLines, StopAtTheByteLimit) {
  BoundedLines lines(10);
  std::istringstream stream("1\n2\n345\n");
  std::string seen;
  const auto take = [&](const std::string& line, std::uint64_t) { seen += line + ";"; };
  EXPECT_FALSE(read_lines(stream, lines, take, 5));
  EXPECT_EQ(seen, "1;2;") << "what is cut through is not a line";
  EXPECT_TRUE(read_lines(stream, lines, take, 4)) << "it ends there";
  EXPECT_EQ(seen, "1;2;345;");
}

}  // namespace
}  // namespace hookline
