// How a choice proceeds: which settings are tried, and which one is kept.

#include "prediction/decision.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace hookline {
namespace {

/// No hook and three hooks, each with the same kind of buckets.
std::vector<Contender> four() { return {{0, 2}, {1, 2}, {2, 2}, {3, 2}}; }

DecisionRule each_once() {
  DecisionRule rule;
  rule.rounds = 1;
  return rule;
}

Decision predicted(const std::vector<double>& seconds, std::vector<Contender> contenders = four(),
                   const DecisionRule& rule = each_once()) {
  Decision decision(std::move(contenders), rule);
  decision.begin(seconds[0]);
  for (std::size_t i = 1; i < seconds.size(); ++i) decision.predict(i, seconds[i]);
  return decision;
}

/// The settings tried, in order, until one is kept; `measured` gives their step times.
std::vector<std::size_t> course(Decision& decision, const std::map<std::size_t, double>& measured) {
  std::vector<std::size_t> tried;
  do {
    tried.push_back(decision.next());
    decision.measure(tried.back(), measured.at(tried.back()));
  } while (decision.next() != tried.back() && tried.size() < 50);
  return tried;
}

using Tried = std::vector<std::size_t>;

TEST(Decision, MeasuresTheFastestAndStaysWithIt) {
  Decision decision = predicted({0.100, 0.070, 0.050, 0.080});
  EXPECT_EQ(course(decision, {{2, 0.051}}), Tried({2}));
  EXPECT_TRUE(decision.is_final());
  EXPECT_TRUE(decision.is_measured(2));
  EXPECT_DOUBLE_EQ(decision.seconds(2), 0.051);
}

TEST(Decision, StaysWithoutAHookWhereNoneSavesEnough) {
  Decision decision = predicted({0.100, 0.098, 0.120, 0.110});
  EXPECT_EQ(course(decision, {{0, 0.100}}), Tried({0}));
}

TEST(Decision, TriesNothingThatIsPredictedToSaveTooLittle) {
  // In its one bucket, setting 1 is about as fast as setting 2, but saves nothing.
  const std::vector<Contender> contenders = {{0, 2}, {1, 1}, {1, 2}, {2, 2}};
  Decision decision = predicted({0.100, 0.099, 0.096, 0.099}, contenders);
  EXPECT_EQ(decision.next(), 2u);
  decision.measure(2, 0.101);
  EXPECT_EQ(decision.next(), 0u) << "the others are predicted to be no faster than no hook";
}

TEST(Decision, AlsoMeasuresWhatIsPredictedToBeAboutAsFast) {
  Decision decision = predicted({0.100, 0.052, 0.050, 0.080});
  EXPECT_EQ(course(decision, {{1, 0.047}, {2, 0.050}}), Tried({2, 1}));
  Decision other = predicted({0.100, 0.052, 0.050, 0.080});
  EXPECT_EQ(course(other, {{1, 0.053}, {2, 0.050}}), Tried({2, 1, 2})) << "back to the faster one";
}

TEST(Decision, CorrectsPredictionsByWhatItMeasures) {
  Decision decision = predicted({0.100, 0.054, 0.050, 0.080});
  decision.measure(2, 0.055);
  EXPECT_NEAR(decision.seconds(1), 0.0594, 1e-9);
  EXPECT_EQ(decision.next(), 2u) << "the other one would take as much longer";
  Decision wrong = predicted({0.100, 0.020, 0.010, 0.080});
  wrong.measure(2, 0.090);
  EXPECT_NEAR(wrong.seconds(1), 0.025, 1e-9) << "by a quarter at most";
  EXPECT_EQ(wrong.next(), 1u);
}

TEST(Decision, FallsBackToNoHookIfEveryHookDisappoints) {
  Decision decision = predicted({0.100, 0.060, 0.050, 0.080});
  const std::map<std::size_t, double> measured = {{0, 0.100}, {1, 0.200}, {2, 0.200}, {3, 0.200}};
  EXPECT_EQ(course(decision, measured), Tried({2, 1, 0}))
      << "the third is predicted to be slower than none by then";
}

TEST(Decision, RemeasuresTheBaselineIfAHookIsAboutAsFast) {
  Decision decision = predicted({0.100, 0.080, 0.200, 0.200});
  // The machine has become slower since, and so has training without a hook.
  EXPECT_EQ(course(decision, {{0, 0.110}, {1, 0.098}}), Tried({1, 0, 1}));
  EXPECT_DOUBLE_EQ(decision.seconds(0), 0.110);
}

TEST(Decision, TriesNoMoreThanThreeThatAreAboutAsFast) {
  std::vector<Contender> contenders = {{0, 1}};
  std::vector<double> seconds = {0.100};
  std::map<std::size_t, double> measured;
  for (std::size_t i = 1; i <= 8; ++i) {
    contenders.push_back({i, 1});
    seconds.push_back(0.050 + 0.0001 * static_cast<double>(i));
    measured[i] = 0.050 + 0.0001 * static_cast<double>(i);
  }
  Decision decision = predicted(seconds, contenders);
  EXPECT_EQ(course(decision, measured), Tried({1, 2, 3, 1}));
}

TEST(Decision, PrefersFewerBucketsIfAboutAsFast) {
  const std::vector<Contender> contenders = {{0, 2}, {0, 1}, {1, 2}, {1, 1}, {1, 9}, {1, 0}};
  Decision decision = predicted({0.100, 0.100, 0.0505, 0.0525, 0.0500, 0}, contenders);
  EXPECT_EQ(decision.next(), 3u) << "4 % slower";
  Decision slower = predicted({0.100, 0.100, 0.0505, 0.0540, 0.0500, 0}, contenders);
  EXPECT_EQ(slower.next(), 2u) << "one bucket is 7 % slower";
}

TEST(Decision, TriesFewerBucketsOfAHookThatIsFarAhead) {
  const std::vector<Contender> contenders = {{0, 2}, {1, 4}, {1, 2}, {1, 1}, {2, 1}};
  const std::vector<double> seconds = {1.000, 0.050, 0.060, 0.070, 0.090};
  Decision decision = predicted(seconds, contenders);
  EXPECT_EQ(course(decision, {{1, 0.050}, {2, 0.049}, {3, 0.080}}), Tried({1, 2, 3, 2}));
  Decision tied = predicted(seconds, contenders);
  EXPECT_EQ(course(tied, {{1, 0.050}, {2, 0.060}, {3, 0.051}}), Tried({1, 2, 3}))
      << "one bucket is within 3 % of four";
  Decision slower = predicted(seconds, contenders);
  EXPECT_EQ(course(slower, {{1, 0.050}, {2, 0.060}, {3, 0.052}}), Tried({1, 2, 3, 1})) << "4 % slower";
  Decision less_ahead = predicted({0.400, 0.050, 0.060, 0.070, 0.090}, contenders);
  EXPECT_EQ(course(less_ahead, {{1, 0.050}}), Tried({1}));
  Decision far = predicted({1.000, 0.050, 0.110, 0.120, 0.090}, contenders);
  EXPECT_EQ(course(far, {{1, 0.050}}), Tried({1})) << "predicted to take more than twice as long";
}

TEST(Decision, MeasuresThoseThatAreAboutAsFastThreeTimesInTurn) {
  Decision decision = predicted({0.100, 0.052, 0.050, 0.080}, four(), {});
  const std::vector<std::vector<double>> measured = {
      {}, {0.050, 0.051, 0.052}, {0.049, 0.055, 0.056}};  // the first time, setting 2 was lucky
  Tried tried;
  for (std::vector<std::size_t> times(3, 0); tried.empty() || decision.next() != tried.back();) {
    tried.push_back(decision.next());
    decision.measure(tried.back(), measured.at(tried.back()).at(times.at(tried.back())++));
    ASSERT_LT(tried.size(), 20u);
  }
  EXPECT_EQ(tried, Tried({2, 1, 2, 1, 2, 1}));
  EXPECT_DOUBLE_EQ(decision.seconds(1), 0.051) << "the median";
  EXPECT_DOUBLE_EQ(decision.seconds(2), 0.055);
}

TEST(Decision, MeasuresTheBaselineAgainAmongThoseThatAreAboutAsFast) {
  Decision decision = predicted({0.100, 0.200, 0.094, 0.200}, four(), {});
  EXPECT_EQ(course(decision, {{0, 0.100}, {2, 0.094}}), Tried({2, 0, 2, 0, 2, 0, 2}));
}

TEST(Decision, MeasuresNothingForAccuracyThatIsNotAffordable) {
  Decision decision = predicted({0.100, 0.052, 0.050, 0.080}, four(), {});
  EXPECT_EQ(decision.next(), 2u);
  decision.afford(0.0015);
  decision.measure(2, 0.050);
  EXPECT_EQ(decision.next(), 2u) << "setting 1 is predicted to take 2 ms more";
  Decision richer = predicted({0.100, 0.052, 0.050, 0.080}, four(), {});
  EXPECT_EQ(richer.next(), 2u);
  richer.afford(0.0025);
  richer.measure(2, 0.050);
  EXPECT_EQ(richer.next(), 1u);
  richer.afford(-1);
  richer.measure(1, 0.049);
  EXPECT_EQ(richer.next(), 1u) << "no second round";
  Decision gaining = predicted({0.100, 0.040, 0.039, 0.080}, four(), {});
  gaining.afford(-1);
  EXPECT_EQ(gaining.next(), 2u);
  gaining.measure(2, 0.050);
  EXPECT_EQ(gaining.next(), 2u) << "its slowness corrects the prediction of setting 1";
  Decision promising = predicted({0.100, 0.048, 0.030, 0.080}, four(), {});
  promising.afford(-1);
  EXPECT_EQ(promising.next(), 2u);
  promising.measure(2, 0.070);
  EXPECT_EQ(promising.next(), 1u) << "setting 1 is predicted to take 60 ms";
}

TEST(Decision, TriesTheBaselineInOtherBucketsIfHooksGainLittle) {
  const std::vector<Contender> contenders = {{0, 2}, {0, 1}, {0, 4}, {1, 2}};
  Decision no_gain = predicted({0.100, 0.104, 0.130, 0.100}, contenders);
  EXPECT_EQ(course(no_gain, {{0, 0.100}, {1, 0.091}}), Tried({1, 0, 1}));
  Decision small_gain = predicted({0.100, 0.098, 0.130, 0.094}, contenders);
  EXPECT_EQ(course(small_gain, {{0, 0.100}, {1, 0.091}, {3, 0.095}}), Tried({3, 0, 1}));
  Decision large_gain = predicted({0.100, 0.098, 0.130, 0.050}, contenders);
  EXPECT_EQ(course(large_gain, {{3, 0.050}}), Tried({3}));
}

TEST(Decision, NeverTakesWhatWasDropped) {
  Decision decision = predicted({0.100, 0.060, 0.050, 0.080});
  EXPECT_EQ(decision.next(), 2u);
  decision.drop(2);
  EXPECT_EQ(decision.next(), 1u);
  decision.measure(1, 0.061);
  EXPECT_EQ(decision.next(), 1u);
  decision.drop(1);
  decision.drop(3);
  EXPECT_EQ(decision.next(), 0u);
  decision.begin(0.100);
  decision.predict(2, 0.010);
  EXPECT_EQ(decision.next(), 0u) << "not even in a new choice";
}

// A lucky measurement causes a switch, and the next one reveals it.
TEST(Decision, SwitchesBackOnceIfTheFasterOneProvesSlower) {
  Decision decision = predicted({0.100, 0.050, 0.051, 0.080});
  decision.measure(1, 0.050);
  EXPECT_EQ(decision.next(), 2u);
  decision.measure(2, 0.040);
  EXPECT_EQ(decision.next(), 2u);
  decision.measure(2, 0.080);
  EXPECT_EQ(decision.next(), 1u) << "the mean is 0.060";
  decision.measure(1, 0.090);
  EXPECT_EQ(decision.next(), 1u) << "not again";
}

TEST(Decision, TriesEachSettingWithoutPredictions) {
  DecisionRule rule = each_once();
  rule.try_each = true;
  Decision decision({{0, 2}, {1, 2}, {1, 0}, {2, 2}}, rule);
  decision.begin(0.100);
  EXPECT_EQ(course(decision, {{1, 0.060}, {3, 0.090}}), Tried({1, 3, 1})) << "not the one in no buckets";
}

TEST(Decision, IsRestored) {
  Decision decision(four());
  decision.restore(0, 0.100, false);
  decision.restore(1, 0.060, true);
  decision.restore(2, 0.059, false);
  decision.settle_on(1);
  EXPECT_EQ(decision.next(), 1u);
  decision.measure(1, 0.062);
  EXPECT_EQ(decision.next(), 1u);
  EXPECT_DOUBLE_EQ(decision.seconds(1), 0.061);
}

TEST(Decision, NamesTheFastestOtherSetting) {
  const Decision decision = predicted({0.100, 0.060, 0.050, 0.080});
  EXPECT_EQ(decision.fastest_except(0), 2u);
  EXPECT_EQ(decision.fastest_except(2), 1u);
  EXPECT_EQ(Decision({{0, 1}}).fastest_except(0), 0u);
}

}  // namespace
}  // namespace hookline
