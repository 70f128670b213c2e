// Which setting is chosen, and when a choice is given up.

#include "prediction/choose.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "hooks/error.h"
#include "tests/support/failure.h"

namespace hookline {
namespace {

using testing::failure_of;

TEST(Choose, TakesTheFastest) {
  EXPECT_EQ(choose({0.100, 0.060, 0.040}, 0), 2u);
  EXPECT_EQ(choose({0.100, 0.040, 0.060}, 2), 1u);
}

TEST(Choose, StaysWhereAnotherSavesTooLittle) {
  EXPECT_EQ(choose({0.100, 0.098}, 0), 0u);
  EXPECT_EQ(choose({0.100, 0.098}, 1), 1u) << "nor does it go back";
  EXPECT_EQ(choose({0.100, 0.096}, 0), 1u);
}

TEST(Choose, TakesTheFirstOfThoseThatAreEquallyFast) {
  EXPECT_EQ(choose({0.100, 0.0503, 0.0500, 0.0502}, 0), 1u);
  EXPECT_EQ(choose({0.100, 0.0510, 0.0500, 0.0502}, 0), 2u);
}

TEST(Choose, PassesOverWhatIsNoTime) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(choose({0.100, nan, 0.050, 0.0, -1.0}, 0), 2u);
  EXPECT_EQ(choose({0.100, std::numeric_limits<double>::infinity()}, 0), 0u);
}

TEST(Choose, NeedsAPredictionForTheSettingInUse) {
  const std::string text = "there is no prediction for the setting in use";
  EXPECT_EQ(failure_of<Error>([] { choose({}, 0); }), text);
  EXPECT_EQ(failure_of<Error>([] { choose({0.1, 0.0}, 1); }), text);
}

Window with_a_hook(double measured, double predicted = 0.050) { return {measured, predicted, 0.060}; }

TEST(ChoiceWatch, KeepsWhatDoesAsPredicted) {
  ChoiceWatch watch;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(watch.see(with_a_hook(0.052)), Verdict::keep);
}

TEST(ChoiceWatch, GoesBackAtOnceFromWhatIsSlowerThanNoHookFromTheStart) {
  EXPECT_EQ(ChoiceWatch().see(with_a_hook(0.063)), Verdict::go_back);
  EXPECT_EQ(ChoiceWatch().see(with_a_hook(0.061)), Verdict::keep) << "within the bound";
}

TEST(ChoiceWatch, TakesTwoWindowsInARowForAChange) {
  ChoiceWatch watch;
  EXPECT_EQ(watch.see(with_a_hook(0.050)), Verdict::keep);
  EXPECT_EQ(watch.see(with_a_hook(0.080)), Verdict::keep) << "may be noise";
  EXPECT_EQ(watch.see(with_a_hook(0.050)), Verdict::keep);
  EXPECT_EQ(watch.see(with_a_hook(0.080)), Verdict::keep);
  EXPECT_EQ(watch.see(with_a_hook(0.080)), Verdict::go_back);
}

TEST(ChoiceWatch, ThinksAgainWhenStepsAreFasterOrSlowerThanPredicted) {
  for (const double measured : {0.030, 0.070}) {
    ChoiceWatch watch;
    const Window window{measured, 0.050, {}};  // of no hook
    EXPECT_EQ(watch.see(window), Verdict::keep);
    EXPECT_EQ(watch.see(window), Verdict::think_again);
  }
}

}  // namespace
}  // namespace hookline
