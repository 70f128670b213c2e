// How long backward passes wait for units that other ranks skip; the tests themselves do not wait.
#include "parallel/fsdp/reduction_patience.h"

#include <gtest/gtest.h>

#include <chrono>

namespace hookline {
namespace {

using std::chrono::milliseconds;

TEST(ReductionPatience, WaitsForASecondAtMost) {
  ReductionPatience patience;
  patience.begin_backward();
  EXPECT_EQ(patience.of(3), milliseconds(1000));
}

TEST(ReductionPatience, WaitsInVainOnlyOncePerBackward) {
  ReductionPatience patience;
  patience.begin_backward();
  patience.gave_up(1);
  EXPECT_EQ(patience.of(2), milliseconds(0));
  patience.begin_backward();
  EXPECT_EQ(patience.of(2), milliseconds(1000));
}

TEST(ReductionPatience, WaitsHalfAsLongOnceALateUnitIsOnTimeAgain) {
  ReductionPatience patience;
  patience.begin_backward();
  patience.gave_up(1);
  patience.begin_backward();
  EXPECT_EQ(patience.of(1), milliseconds(0));
  patience.came(1);
  EXPECT_EQ(patience.of(1), milliseconds(500));
}

TEST(ReductionPatience, CountsOnlyTheWaitsThatTookTime) {
  ReductionPatience patience;
  patience.begin_backward();
  patience.gave_up(1);
  patience.gave_up(2);  // no time was spent waiting for it
  patience.begin_backward();
  EXPECT_EQ(patience.of(2), milliseconds(1000));
  patience.gave_up(1);  // nor for this one, which had been late before
  EXPECT_EQ(patience.of(2), milliseconds(0)) << "a late unit is a sign that others are";
  patience.came(1);
  patience.begin_backward();
  EXPECT_EQ(patience.of(1), milliseconds(500));
}

TEST(ReductionPatience, LosesAtMostTwoSecondsToAlternatelySkippedUnits) {
  ReductionPatience patience;
  milliseconds lost(0);
  for (int step = 0; step < 10000; ++step) {
    patience.begin_backward();
    if (step % 2 == 0) {
      lost += patience.of(1);
      patience.gave_up(1);
    } else {
      patience.came(1);
    }
  }
  EXPECT_LE(lost, milliseconds(2000));
  EXPECT_GT(lost, milliseconds(1900));
}

}  // namespace
}  // namespace hookline
