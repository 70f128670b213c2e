#include "launcher/sweep/file/sweep_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hookline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

/// A table of a sweep file, and the problems found in its values.
class ValuesOf {
 public:
  explicit ValuesOf(const std::string& text) : document_(parse_toml(SourceText("sweep.toml", text))) {}

  const TomlNode& table() const { return document_.roots.at(0); }
  SweepValues values() {
    return {Catalog::built_in(),
            [this](Span, const std::string& message, const std::string&) { problems.push_back(message); }};
  }
  std::vector<std::string> problems;
  std::vector<GivenKey> given;

 private:
  TomlDocument document_;
};

TEST(SweepValues, BecomeTextAsOnACommandLine) {
  ValuesOf file("ddp.comm_hook = 'fp16'\nargs.lr = 0.5\nargs.deep = true\n");
  EXPECT_THAT(file.values().assignments(file.table(), file.given),
              ElementsAre(Pair("args.deep", "true"), Pair("args.lr", "0.5"), Pair("ddp.comm_hook", "fp16")));
  EXPECT_THAT(file.problems, IsEmpty());
  EXPECT_EQ(file.given.size(), 3u);
}

TEST(SweepValues, TakeListsRangesAndSingleValuesForADimension) {
  ValuesOf file("args.a = [1, 2]\nargs.b = { from = 1, to = 3, step = 1 }\nargs.c = 'one'\n");
  const std::vector<Dimension> dimensions = file.values().dimensions(file.table(), file.given);
  ASSERT_EQ(dimensions.size(), 3u);
  EXPECT_THAT(dimensions[0].values, ElementsAre("1", "2"));
  EXPECT_THAT(dimensions[1].values, ElementsAre("1", "2", "3"));
  EXPECT_THAT(dimensions[2].values, ElementsAre("one"));
  EXPECT_THAT(file.problems, IsEmpty());
}

TEST(SweepValues, DrawFromARangeOrFromAList) {
  ValuesOf file("args.lr = { from = 1e-4, to = 1e-1, log = true }\nargs.n = [2, 4]\n");
  const SweepValues values = file.values();
  const auto keys = values.keys_below(file.table());
  ASSERT_EQ(keys.size(), 2u);
  const Draw range = values.draw(keys[0].first, *keys[0].second);
  EXPECT_EQ(range.from, 1e-4);
  EXPECT_EQ(range.to, 1e-1);
  EXPECT_TRUE(range.log);
  EXPECT_THAT(values.draw(keys[1].first, *keys[1].second).choices, ElementsAre("2", "4"));
}

TEST(SweepValues, DropAndReportInvalidOnes) {
  ValuesOf file("ddp.com_hook = 'fp16'\nargs.lr = [0.1]\nargs.day = 2025-01-01\n");
  EXPECT_THAT(file.values().assignments(file.table(), file.given), IsEmpty());
  EXPECT_THAT(file.problems, ElementsAre("unknown key 'ddp.com_hook'", "'args.lr' takes one value here",
                                         "'args.day' can't be a date"));
}

}  // namespace
}  // namespace hookline
