// Predicts the time of an all-reduce of any size from a few measurements.

#include "prediction/collective_times.h"

#include <gtest/gtest.h>

namespace hookline {
namespace {

TEST(CollectiveTimes, AreInterpolatedBetweenMeasurements) {
  const CollectiveTimes times({{1000, 0.001, 0.0005}, {2000, 0.002, 0.0007}, {4000, 0.006, 0.0011}});
  EXPECT_DOUBLE_EQ(times.of(1500).seconds, 0.0015);
  EXPECT_DOUBLE_EQ(times.of(1500).busy_seconds, 0.0006);
  EXPECT_DOUBLE_EQ(times.of(3000).seconds, 0.004);
  EXPECT_DOUBLE_EQ(times.of(4000).seconds, 0.006);
}

TEST(CollectiveTimes, AreExtrapolatedFromTheLastTwoMeasurements) {
  const CollectiveTimes times({{1000, 0.001, 0}, {2000, 0.002, 0}, {4000, 0.006, 0}});
  EXPECT_DOUBLE_EQ(times.of(8000).seconds, 0.014);
}

TEST(CollectiveTimes, AreNeverLessThanThatOfTheSmallest) {
  const CollectiveTimes times({{1000, 0.001, 0.0005}, {2000, 0.002, 0.001}});
  EXPECT_DOUBLE_EQ(times.of(4).seconds, 0.001);
  EXPECT_DOUBLE_EQ(times.of(0).seconds, 0.001);
  EXPECT_DOUBLE_EQ(times.latency(), 0.001);
}

// Noise can make either 4 KB or 8 KB come out faster.
TEST(CollectiveTimes, DoNotShrinkWithSize) {
  const CollectiveTimes times({{4000, 0.003, 0.002}, {8000, 0.002, 0.001}, {16000, 0.004, 0.009}});
  EXPECT_DOUBLE_EQ(times.of(4000).seconds, 0.002) << "it was held up";
  EXPECT_DOUBLE_EQ(times.of(4000).busy_seconds, 0.001);
  EXPECT_DOUBLE_EQ(times.of(8000).seconds, 0.002);
  EXPECT_DOUBLE_EQ(times.of(16000).busy_seconds, 0.004) << "no more than all of its time";
}

TEST(CollectiveTimes, TakeOneOfTwoMeasurementsOfTheSameSize) {
  const CollectiveTimes times({{1000, 0.001, 0}, {2000, 0.002, 0}, {2000, 0.003, 0}});
  EXPECT_DOUBLE_EQ(times.of(4000).seconds, 0.004);
}

TEST(CollectiveTimes, AreZeroForASingleRank) {
  EXPECT_EQ(CollectiveTimes().of(1e9).seconds, 0);
  EXPECT_EQ(CollectiveTimes().latency(), 0);
}

TEST(CollectiveTimes, AreConstantForOneMeasurement) {
  EXPECT_DOUBLE_EQ(CollectiveTimes({{1000, 0.001, 0}}).of(1e6).seconds, 0.001);
}

}  // namespace
}  // namespace hookline
