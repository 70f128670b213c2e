// Which setting is chosen, and when a choice is reconsidered.

#include "prediction/choice_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "tests/support/failure.h"

namespace hookline {
namespace {

using testing::failure_of;

TEST(Choose, TakesTheFastest) {
  EXPECT_EQ(choose({0.100, 0.060, 0.040}, 0), 2u);
  EXPECT_EQ(choose({0.100, 0.040, 0.060}, 2), 1u);
}

TEST(Choose, KeepsTheSettingIfAnotherSavesTooLittle) {
  EXPECT_EQ(choose({0.100, 0.098}, 0), 0u);
  EXPECT_EQ(choose({0.100, 0.096}, 0), 1u);
  EXPECT_EQ(choose({0.100, 0.060, 0.059}, 1), 1u);
}

TEST(Choose, DropsAHookThatSavesTooLittle) {
  EXPECT_EQ(choose({0.100, 0.098}, 1), 0u);
  EXPECT_EQ(choose({0.100, 0.102}, 1), 0u);
  EXPECT_EQ(choose({0.100, 0.096}, 1), 1u);
  EXPECT_EQ(choose({0.0, 0.098}, 1), 1u) << "the time without a hook is not known";
}

TEST(Choose, TakesTheFirstOfThoseThatAreEquallyFast) {
  EXPECT_EQ(choose({0.100, 0.0503, 0.0500, 0.0502}, 0), 1u);
  EXPECT_EQ(choose({0.100, 0.0510, 0.0500, 0.0502}, 0), 2u);
}

TEST(Choose, IgnoresInvalidTimes) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(choose({0.100, nan, 0.050, 0.0, -1.0}, 0), 2u);
  EXPECT_EQ(choose({0.100, std::numeric_limits<double>::infinity()}, 0), 0u);
}

TEST(Choose, NeedsAPredictionForTheSettingInUse) {
  const std::string text = "there is no prediction for the setting in use";
  EXPECT_EQ(failure_of<Error>([] { choose({}, 0); }), text);
  EXPECT_EQ(failure_of<Error>([] { choose({0.1, 0.0}, 1); }), text);
}

Window step_of(double step) { return {step, 0.050}; }

TEST(ChoiceWatch, KeepsAChoiceWhileStepsAreWhatTheyWere) {
  ChoiceWatch watch;
  for (const double step : {0.050, 0.055, 0.045, 0.061, 0.039})
    EXPECT_FALSE(watch.sees_change(step_of(step)));
}

TEST(ChoiceWatch, NeedsTwoSlowWindowsInARow) {
  ChoiceWatch watch;
  EXPECT_FALSE(watch.sees_change(step_of(0.080))) << "may be noise";
  EXPECT_FALSE(watch.sees_change(step_of(0.050)));
  EXPECT_FALSE(watch.sees_change(step_of(0.080)));
  EXPECT_TRUE(watch.sees_change(step_of(0.080)));
}

TEST(ChoiceWatch, SeesStepsThatHaveBecomeFaster) {
  ChoiceWatch watch;
  EXPECT_FALSE(watch.sees_change(step_of(0.030)));
  EXPECT_TRUE(watch.sees_change(step_of(0.030)));
}

// A hook that sends little takes as long on a faster link, although steps without a hook might be faster
// there.
TEST(ChoiceWatch, SeesAChangedLinkBehindUnchangedSteps) {
  for (const double link : {0.040, 0.700}) {
    ChoiceWatch watch;
    EXPECT_FALSE(watch.sees_change({0.050, 0.050, link, 0.200}));
    EXPECT_TRUE(watch.sees_change({0.050, 0.050, link, 0.200}));
  }
  ChoiceWatch watch;
  for (const double link : {0.200, 0.080, 0.500, 0.0})
    EXPECT_FALSE(watch.sees_change({0.050, 0.050, link, 0.200}));
  for (int i = 0; i < 3; ++i)
    EXPECT_FALSE(watch.sees_change({0.050, 0.050, 0.1, 0})) << "not measured before";
}

// Another program may slow down everything, even steps without a hook: only new measurements can show it.
TEST(ChoiceWatch, SeesAHookThatHasBecomeSlowerThanNone) {
  const auto sees = [](double step, double without) {
    ChoiceWatch watch;
    const Window window{step, 0.050, 0, 0, without};
    return watch.sees_change(window) || watch.sees_change(window);
  };
  EXPECT_TRUE(sees(0.055, 0.053));
  EXPECT_FALSE(sees(0.054, 0.053)) << "by less than 3 %";
  EXPECT_FALSE(sees(0.055, 0)) << "no hook is in use";
}

TEST(ChoiceWatch, IgnoresALinkThatIsNegligibleInAStep) {
  ChoiceWatch watch;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(watch.sees_change({0.050, 0.050, 0.001, 0.010}));
}

}  // namespace
}  // namespace hookline
