#include "base/text/duration_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace hookline {
namespace {

std::string duration(double seconds) { return duration_text(std::chrono::duration<double>(seconds)); }

TEST(DurationText, HasThreeDigitsBelowAMinute) {
  EXPECT_EQ(duration(0), "0 s");
  EXPECT_EQ(duration(23e-6), "23 µs");
  EXPECT_EQ(duration(0.0042), "4.2 ms");
  EXPECT_EQ(duration(0.24897), "249 ms");
  EXPECT_EQ(duration(3.1), "3.1 s");
  EXPECT_EQ(duration(59.94), "59.9 s");
}

TEST(DurationText, HasMinutesAndHoursAboveIt) {
  EXPECT_EQ(duration(60), "1 min");
  EXPECT_EQ(duration(125), "2 min 5 s");
  EXPECT_EQ(duration(3599), "59 min 59 s");
  EXPECT_EQ(duration(3600), "1 h");
  EXPECT_EQ(duration(3780), "1 h 3 min");
  EXPECT_EQ(duration(90'000), "25 h");
}

TEST(DurationText, PicksTheUnitAfterRounding) {
  EXPECT_EQ(duration(0.0009996), "1 ms");
  EXPECT_EQ(duration(0.9996), "1 s");
  EXPECT_EQ(duration(59.96), "1 min");
  EXPECT_EQ(duration(3599.6), "1 h");
}

TEST(DurationText, FormatsInfinityNaNAndNegatives) {
  EXPECT_EQ(duration(std::numeric_limits<double>::infinity()), "inf s");
  EXPECT_EQ(duration(std::numeric_limits<double>::quiet_NaN()), "nan s");
  EXPECT_EQ(duration(-2), "-2 s");
}

TEST(DurationText, ShowsConfiguredTimesInSeconds) {
  EXPECT_EQ(seconds_text(std::chrono::seconds(600)), "600 s");
  EXPECT_EQ(seconds_text(std::chrono::milliseconds(10)), "0.01 s");
  EXPECT_EQ(seconds_text(std::chrono::milliseconds(10'123)), "10.1 s");
}

}  // namespace
}  // namespace hookline
