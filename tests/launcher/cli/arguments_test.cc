#include "launcher/cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hookline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<Flag> kFlags = {{"--config"},
                                  {"--set", true, true},
                                  {"--processes-per-node"},
                                  {"--help", false, true},
                                  {"-h", false, true}};

SplitArguments split(const std::vector<std::string>& arguments,
                     PlainArguments plain = PlainArguments::end_flags) {
  return split_arguments(arguments, kFlags, plain);
}

std::string complaint(const std::vector<std::string>& arguments) {
  try {
    split(arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(SplitArguments, LeavesEverythingAfterTheProgramToIt) {
  const SplitArguments result =
      split({"--config", "a.toml", "./train", "--config", "b", "-x", "--help", "--"});
  EXPECT_THAT(result.flags, ElementsAre("--config=a.toml"));
  EXPECT_THAT(result.plain, ElementsAre("./train", "--config", "b", "-x", "--help", "--"));
}

TEST(SplitArguments, EndsTheFlagsAtTwoDashes) {
  const SplitArguments result = split({"--help", "--", "--weird-name", "--help"});
  EXPECT_THAT(result.flags, ElementsAre("--help"));
  EXPECT_THAT(result.plain, ElementsAre("--weird-name", "--help"));
}

TEST(SplitArguments, TakesValuesInBothForms) {
  const SplitArguments result =
      split({"--set=a.b=c=d", "--set", "x.y=-1", "--processes-per-node", "-1", "p"});
  EXPECT_THAT(result.flags, ElementsAre("--set=a.b=c=d", "--set=x.y=-1", "--processes-per-node=-1"));
  EXPECT_THAT(result.plain, ElementsAre("p"));
}

TEST(SplitArguments, TakesADashForAPlainArgument) {
  EXPECT_THAT(split({"-"}).plain, ElementsAre("-"));
  EXPECT_THAT(split({}).plain, IsEmpty());
}

TEST(SplitArguments, MixesFlagsAndPlainArgumentsOnRequest) {
  const SplitArguments result =
      split({"run.toml", "--set", "a.b=1", "--", "--file"}, PlainArguments::may_mix);
  EXPECT_THAT(result.flags, ElementsAre("--set=a.b=1"));
  EXPECT_THAT(result.plain, ElementsAre("run.toml", "--file"));
}

TEST(SplitArguments, NamesTheNearestFlag) {
  EXPECT_EQ(complaint({"--confg", "r.toml", "./train"}), "unknown flag '--confg'; did you mean '--config'?");
  EXPECT_EQ(complaint({"--confg=r.toml"}), "unknown flag '--confg'; did you mean '--config'?");
  EXPECT_EQ(complaint({"--zzzzzzzz"}), "unknown flag '--zzzzzzzz'");
  EXPECT_EQ(complaint({"-x"}), "unknown flag '-x'");
}

TEST(SplitArguments, KnowsOtherLaunchersFlagNames) {
  EXPECT_EQ(complaint({"--nproc_per_node=2"}),
            "unknown flag '--nproc_per_node'; did you mean '--processes-per-node'?");
  EXPECT_EQ(complaint({"--config_file", "x"}), "unknown flag '--config_file'; did you mean '--config'?");
}

TEST(SplitArguments, RequiresAValueWhereAFlagTakesOne) {
  EXPECT_EQ(complaint({"--config"}), "--config needs a value");
  EXPECT_EQ(complaint({"--config=", "./train"}), "--config needs a value");
  EXPECT_EQ(complaint({"--config", "--set", "a=b"}),
            "--config needs a value, but the flag '--set' follows it");
  EXPECT_EQ(complaint({"--help=yes"}), "--help takes no value");
  EXPECT_EQ(complaint({"--config", "a", "--config", "b"}), "--config is given twice");
}

TEST(SplitAssignment, ShowsAnExampleForAMalformedAssignment) {
  EXPECT_EQ(split_assignment("a.b=c=d", "--set", "").value, "c=d");
  for (const char* text : {"comm_hook", "=fp16"}) {
    try {
      split_assignment(text, "--set", "ddp.comm_hook=fp16");
      ADD_FAILURE() << text << " was taken";
    } catch (const UsageError& error) {
      EXPECT_EQ(error.what(), std::string("--set needs KEY=VALUE, not '") + text +
                                  "'; for example: --set ddp.comm_hook=fp16");
    }
  }
}

}  // namespace
}  // namespace hookline
