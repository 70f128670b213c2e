#include "base/text/printable.h"

#include <gtest/gtest.h>

#include "base/log.h"

namespace hookline {
namespace {

TEST(Printable, KeepsTextInAnyScript) {
  for (const std::string text : {"", "plain ~", "é€𝄞 שלום 日本 🙂", "C:\\path"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesTerminalControlCharacters) {
  EXPECT_EQ(printable("\x1b]0;title\x07\x1b[2J"), "\\x1b]0;title\\x07\\x1b[2J");
  EXPECT_EQ(printable("a\nb\tc\rd\x7f"), "a\\nb\\tc\\rd\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m")
      << "C1: the CSI of 8-bit terminals";
  EXPECT_EQ(printable("\u202e\u2066\u200f\u061c\u2028"), "\\u202e\\u2066\\u200f\\u061c\\u2028");
}

TEST(Printable, EscapesBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("a\xff"
                      "b\xc3"),
            "a\\xffb\\xc3");
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m")
      << "the same CSI as a byte";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xc0\x8a"), "\\xc0\\x8a");
}

TEST(Printable, KeepsLineBreaksInMultiLineText) {
  EXPECT_EQ(printable_lines("a\n\tb\r\x1b[1m"), "a\n\tb\\r\\x1b[1m");
}

TEST(Log, EscapesTerminalControlCharacters) {
  ::testing::internal::CaptureStderr();
  log::error("'\x1b[2J' is not a program\n  try another");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "hookline: error: '\\x1b[2J' is not a program\n  try another\n");
}

}  // namespace
}  // namespace hookline
