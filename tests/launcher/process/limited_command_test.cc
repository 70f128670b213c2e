#include "launcher/process/limited_command.h"

#include <gtest/gtest.h>

#include <chrono>

#include "launcher/process/child.h"

namespace hookline {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

LimitedOutput shell(const std::string& script, const CommandLimits& limits) {
  return output_within({"/bin/sh", "-c", script}, limits);
}

TEST(LimitedCommand, ReturnsOutputAndExitCode) {
  const LimitedOutput output = shell("echo out; echo err >&2; exit 3", {seconds(10), seconds(60)});
  EXPECT_EQ(output.text, "out\nerr");
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_EQ(output.beyond_limit, "");
  EXPECT_EQ(shell("kill -SEGV $$", {seconds(10), seconds(60)}).exit_code, 128 + 11);
}

TEST(LimitedCommand, StopsAnEndlessComputation) {
  const LimitedOutput output = shell("while :; do :; done", {seconds(1), seconds(60)});
  EXPECT_EQ(output.beyond_limit, "took more than 1 s of processor time");
}

TEST(LimitedCommand, StopsAnEndlessWait) {
  const CommandLimits limits{seconds(10), milliseconds(200)};
  EXPECT_EQ(shell("exec sleep 600", limits).beyond_limit, "took more than 0.2 s");
  EXPECT_EQ(shell("exec sleep 600 >&- 2>&-", limits).beyond_limit, "took more than 0.2 s")
      << "it has closed its output";
  EXPECT_EQ(shell("echo early; sleep 600; true", limits).text, "early") << "with what it has started";
}

TEST(LimitedCommand, SaysThatAProgramIsMissing) {
  EXPECT_THROW(output_within({"/no/such/program"}, {seconds(1), seconds(1)}), SpawnError);
}

}  // namespace
}  // namespace hookline
