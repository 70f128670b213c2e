// The headline of a report, with overlapping and with separate spreads.
#include "launcher/report/headline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hookline {
namespace {

using ::testing::ElementsAre;

ResultRow row_of(const std::string& name, double mean, double spread, std::size_t done) {
  ResultRow row;
  row.values["args.name"] = name;
  row.metric = Measured{mean, spread};
  row.done = done;
  row.best_id = name;
  return row;
}

/// The headline's lines, with the rows' names filled in. `rows`: the best first.
std::vector<std::string> headline_of(const std::vector<ResultRow>& rows, const std::string& goal = "max") {
  SweepResults results;
  results.facts.metric = "accuracy";
  results.facts.goal = goal;
  results.rows = rows;
  results.trials.emplace_back();
  std::vector<std::string> lines;
  for (const HeadlineLine& line : headline(results)) {
    std::string text;
    for (const HeadlinePart& part : line)
      text += part.row ? rows.at(*part.row).values.at("args.name") : part.text;
    lines.push_back(text);
  }
  return lines;
}

TEST(Headline, NamesTheBestWhoseSpreadOverlapsWithNoOther) {
  std::vector<ResultRow> rows = {row_of("a", 0.98, 0.01, 3), row_of("b", 0.95, 0.01, 3)};
  rows[0].speedup = Measured{1.5, 0.2};
  rows[0].compression = Measured{2, 0};
  rows[1].is_baseline = true;
  EXPECT_THAT(
      headline_of(rows),
      ElementsAre(
          "Best: a: accuracy 0.98 ± 0.01 (baseline 0.95 ± 0.01); 1.5 ± 0.2 times the baseline's speed; "
          "2 ± 0 times fewer bytes than the gradients have."));
  rows[1].waiting = 1;
  EXPECT_THAT(headline_of(rows), ElementsAre(::testing::StartsWith("a: accuracy 0.98 ± 0.01")))
      << "there is no other to compare it with yet";
  rows.push_back(row_of("c", 0.9, 0.01, 3));
  EXPECT_THAT(headline_of(rows), ElementsAre(::testing::StartsWith("Best so far: a: ")));
}

TEST(Headline, NamesNoBestWhoseSpreadOverlapsWithAnother) {
  EXPECT_THAT(
      headline_of({row_of("a", 0.98, 0.01, 3), row_of("b", 0.965, 0.01, 3), row_of("c", 0.9, 0.01, 3)}),
      ElementsAre("No clear best: the spread of the highest accuracy overlaps with that of another row: b.",
                  "Highest: a: accuracy 0.98 ± 0.01."));
  EXPECT_THAT(
      headline_of({row_of("a", 0.98, 0, 3), row_of("b", 0.98, 0, 3)}),
      ElementsAre("No clear best: the spread of the highest accuracy overlaps with that of another row: b.",
                  "Highest: a: accuracy 0.98 ± 0."))
      << "the same";
}

TEST(Headline, SaysWhenUnfinishedRowsAreExcluded) {
  std::vector<ResultRow> rows = {row_of("a", 0.98, 0.01, 3), row_of("b", 0.97, 0.01, 3),
                                 row_of("c", 0.99, 0.01, 2)};
  rows[2].failed = 1;
  EXPECT_THAT(
      headline_of(rows),
      ElementsAre("No clear best: the spread of the highest accuracy overlaps with that of another row: b.",
                  "Highest of the rows with all trials done: a: accuracy 0.98 ± 0.01."));
}

TEST(Headline, NamesThreeRowsThatAreAsGoodAndCountsTheOthers) {
  std::vector<ResultRow> rows;
  for (const char* name : {"a", "b", "c", "d", "e"}) rows.push_back(row_of(name, 0.2, 0.1, 2));
  rows[3].is_fastest = true;
  rows[3].speedup = Measured{3, 0.5};
  EXPECT_THAT(
      headline_of(rows, "min"),
      ElementsAre(
          "No clear best: the spread of the lowest accuracy overlaps with those of 4 other rows: b, c, "
          "d and 1 more.",
          "Lowest: a: accuracy 0.2 ± 0.1.",
          "As good within the spread, and faster: d: accuracy 0.2 ± 0.1; 3 ± 0.5 times the "
          "baseline's speed."));
  rows.resize(4);
  EXPECT_THAT(headline_of(rows)[0], ::testing::EndsWith("those of 3 other rows: b, c and d."));
}

TEST(Headline, NamesNoBestOfOneTrial) {
  EXPECT_THAT(headline_of({row_of("a", 0.9, 0, 1), row_of("b", 0.5, 0, 1)}),
              ElementsAre("No best: the highest accuracy comes from one trial, so its spread is not known.",
                          "Highest: a (one trial, so no spread is known): accuracy 0.9."));
  EXPECT_THAT(
      headline_of({row_of("a", 0.9, 0, 1)}),
      ElementsAre(AllOf(::testing::StartsWith("a (one trial, "), ::testing::EndsWith("): accuracy 0.9."))));
}

TEST(Headline, AssumesTheBestRowsSpreadForASingleTrial) {
  EXPECT_THAT(headline_of({row_of("a", 0.9, 0.01, 2), row_of("b", 0.879, 0, 1)}),
              ElementsAre("Best: a: accuracy 0.9 ± 0.01."));
  EXPECT_THAT(headline_of({row_of("a", 0.9, 0.01, 2), row_of("b", 0.881, 0, 1)})[0],
              ::testing::StartsWith("No clear best: "));
}

TEST(Headline, NamesNoBestBeforeARowHasAllItsTrialsDone) {
  std::vector<ResultRow> rows = {row_of("a", 0.9, 0.01, 2), row_of("b", 0.5, 0.01, 2)};
  rows[0].waiting = 1;
  rows[1].failed = 1;
  EXPECT_THAT(headline_of(rows), ElementsAre("No best yet: no row has all its trials done.",
                                             "Highest so far: a: accuracy 0.9 ± 0.01."));
}

TEST(Headline, IsGivenForEachSweep) {
  std::vector<ResultRow> rows = {row_of("a", 0.9, 0.01, 2), row_of("b", 0.5, 0.01, 2),
                                 row_of("c", 0.4, 0.01, 2)};
  rows[0].values["sweep"] = "slow";
  rows[1].values["sweep"] = "fast";
  rows[2].values["sweep"] = "fast";
  EXPECT_THAT(headline_of(rows),
              ElementsAre("fast: Best: b: accuracy 0.5 ± 0.01.", "slow: a: accuracy 0.9 ± 0.01."));
}

TEST(Headline, SaysThatThereIsNothingToCompare) {
  EXPECT_EQ(headline({}).at(0).at(0).text, "The sweep has no trials.");
  ResultRow row = row_of("a", 0, 0, 1);
  row.metric.reset();
  EXPECT_THAT(headline_of({row}), ElementsAre("No trial has a value of the metric."));
}

}  // namespace
}  // namespace hookline
