// Row names for legends and axes: short, showing only what differs, and unique.
#include "launcher/report/row_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hookline {
namespace {

using ::testing::ElementsAre;

const std::string kHookKey = "ddp.comm_hook", kWrapperKey = "ddp.comm_wrapper";
const std::string kRankKey = "ddp.comm_state_option.matrix_approximation_rank";
const std::string kStartKey = "ddp.comm_state_option.start_powerSGD_iter";

/// The names, in the order of `rows`.
std::vector<std::string> names_for(const std::vector<Assignments>& rows) {
  const auto names = row_names({rows.begin(), rows.end()});
  std::vector<std::string> in_order;
  for (const Assignments& row : rows) in_order.push_back(names.at(row));
  return in_order;
}

TEST(RowNames, ShowTheHookItsOptionsAndItsWrapper) {
  EXPECT_THAT(
      names_for({{{kHookKey, "no"}},
                 {{kHookKey, "fp16"}, {kWrapperKey, "no"}},
                 {{kHookKey, "allreduce"}, {kWrapperKey, "bf16"}},
                 {{kHookKey, "power_sgd"}, {kRankKey, "1"}, {kStartKey, "10"}, {kWrapperKey, "no"}},
                 {{kHookKey, "power_sgd"}, {kRankKey, "2"}, {kStartKey, "10"}, {kWrapperKey, "fp16"}}}),
      ElementsAre("no hook", "fp16", "allreduce · bf16", "power_sgd r1", "power_sgd r2 · fp16"))
      << "the step from which PowerSGD compresses is the same in all rows that have it";
}

TEST(RowNames, LeaveOutWhatAllRowsHave) {
  EXPECT_THAT(names_for({{{kHookKey, "fp16"}, {"args.lr", "0.1"}, {"launch.processes_per_node", "2"}},
                         {{kHookKey, "fp16"}, {"args.lr", "0.2"}, {"launch.processes_per_node", "2"}}}),
              ElementsAre("lr=0.1", "lr=0.2"));
}

TEST(RowNames, SpellOutOptionsThatShareAnInitial) {
  const std::string rate = "ddp.comm_state_option.min_compression_rate";
  EXPECT_THAT(names_for({{{kRankKey, "1"}, {rate, "2"}}, {{kRankKey, "2"}, {rate, "4"}}}),
              ElementsAre("matrix_approximation_rank=1 min_compression_rate=2",
                          "matrix_approximation_rank=2 min_compression_rate=4"));
}

TEST(RowNames, SpellOutOptionsThatAreNotCounts) {
  const std::string warm = "ddp.comm_state_option.warm_start";
  EXPECT_THAT(
      names_for({{{kHookKey, "power_sgd"}, {warm, "true"}}, {{kHookKey, "power_sgd"}, {warm, "false"}}}),
      ElementsAre("warm_start=true", "warm_start=false"));
}

TEST(RowNames, SpellOutKeysWithTheSameLastPart) {
  EXPECT_THAT(
      names_for({{{"args.lr", "1"}, {"args.head.lr", "1"}}, {{"args.lr", "2"}, {"args.head.lr", "2"}}}),
      ElementsAre("args.head.lr=1 args.lr=1", "args.head.lr=2 args.lr=2"));
}

TEST(RowNames, PutSettingsOfTheConfigBeforeArguments) {
  EXPECT_THAT(
      names_for({{{kHookKey, "no"}, {"args.lr", "1"}, {"args.width", "8"}, {"ddp.bucket_cap_mb", "25"}},
                 {{kHookKey, "fp16"}, {"args.lr", "2"}, {"args.width", "9"}, {"ddp.bucket_cap_mb", "5"}}}),
      ElementsAre("no hook · bucket_cap_mb=25 · lr=1 width=8", "fp16 · bucket_cap_mb=5 · lr=2 width=9"));
}

TEST(RowNames, AddDetailWhereTheyWouldBeEqual) {
  EXPECT_THAT(
      names_for(
          {{{kHookKey, "power_sgd"}}, {{kHookKey, "power_sgd"}, {kStartKey, "10"}}, {{kHookKey, "no"}}}),
      ElementsAre("power_sgd", "power_sgd i10", "no hook"));
  EXPECT_THAT(
      names_for(
          {{{kHookKey, "allreduce"}}, {{kHookKey, "allreduce"}, {kWrapperKey, "no"}}, {{kHookKey, "no"}}}),
      ElementsAre("allreduce", "allreduce · no wrapper", "no hook"));
  EXPECT_THAT(names_for({{}, {{"args.lr", "1"}}}), ElementsAre("as configured", "lr=1"));
  EXPECT_THAT(names_for({{{kWrapperKey, "no"}}, {{kWrapperKey, "fp16"}}}), ElementsAre("no wrapper", "fp16"));
}

TEST(RowNames, ShowEverySettingOfASingleRow) {
  EXPECT_THAT(names_for({{{kHookKey, "fp16"}, {"args.lr", "0.1"}}}), ElementsAre("fp16 · lr=0.1"));
}

TEST(RowNames, CutLongValuesUnlessNothingElseDiffers) {
  const std::string one = "/data/sets/2024/handwritten/ones.bin",
                    two = "/data/sets/2024/handwritten/twos.bin";
  EXPECT_THAT(names_for({{{"args.file", one}}, {{"args.file", two}}}),
              ElementsAre("file=/data/sets/…ten/ones.bin", "file=/data/sets/…ten/twos.bin"));
  const std::string middle = "/data/sets/2025/handwritten/ones.bin";
  EXPECT_THAT(names_for({{{"args.file", one}}, {{"args.file", middle}}}),
              ElementsAre("file=" + one, "file=" + middle));
  const std::string accents = "ääääääääääääääääääääääää";
  EXPECT_THAT(names_for({{{"args.file", accents}}, {{"args.file", "b"}}}),
              ElementsAre("file=ääääää…ääääää", "file=b"))
      << "between characters";
}

TEST(RowNames, NumberRowsThatNothingElseTellsApart) {
  EXPECT_THAT(names_for({{{kHookKey, "no"}}, {{kHookKey, "none"}}}), ElementsAre("no hook", "no hook #2"));
}

TEST(RowNames, EscapeTerminalControlCharacters) {
  EXPECT_THAT(names_for({{{"args.a", "x\ny"}}, {{"args.a", "z"}}}), ElementsAre("a=x\\ny", "a=z"));
}

}  // namespace
}  // namespace hookline
