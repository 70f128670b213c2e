#include "base/text/number_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace hookline {
namespace {

TEST(NumberText, KeepsAllDigitsBeforeTheDecimalPoint) {
  EXPECT_EQ(rounded(1800, 3), "1800");
  EXPECT_EQ(rounded(32041.7, 4), "32042");
  EXPECT_EQ(rounded(999.96, 4), "1000");
  EXPECT_EQ(rounded(-123456, 2), "-123456");
  EXPECT_EQ(rounded(1e14, 3), "100000000000000");
}

TEST(NumberText, OtherwiseRoundsAsPrintfDoes) {
  EXPECT_EQ(rounded(0, 3), "0");
  EXPECT_EQ(rounded(0.12345, 3), "0.123");
  EXPECT_EQ(rounded(99.96, 3), "100");
  EXPECT_EQ(rounded(0.00001234, 3), "1.23e-05");
  EXPECT_EQ(rounded(1.5e15, 3), "1.5e+15");
  EXPECT_EQ(rounded(std::numeric_limits<double>::infinity(), 3), "inf");
}

}  // namespace
}  // namespace hookline
