// `hookline launch` with restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "cli/run_hookline.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Process;
using testing::ProcessResult;
using testing::read_file;
using testing::Sandbox;

std::vector<std::string> launch(std::vector<std::string> flags) {
  std::vector<std::string> arguments = {"launch", "--set", "launch.restart_delay_seconds=0.01"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return arguments;
}

TEST(Restarts, RunAllRanksAgainUntilTheySucceed) {
  const Sandbox sandbox;
  sandbox.script(
      "train",
      "echo attempt $TORCHELASTIC_RESTART_COUNT of rank $RANK, port $MASTER_PORT, at most "
      "$TORCHELASTIC_MAX_RESTARTS\n"
      "[ $TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0\n"
      "[ $RANK = 0 ] || { echo >ready$TORCHELASTIC_RESTART_COUNT; exec sleep 600; }\n"
      "until [ -e ready$TORCHELASTIC_RESTART_COUNT ]; do sleep 0.01; done\necho trouble >&2; exit 7\n");
  const ProcessResult result =
      sandbox.run(launch({"--processes-per-node", "2", "--set", "launch.max_restarts=3", "./train"}));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("hookline: warning: rank 0 exited with code 7\n"),
                                HasSubstr("hookline: restarting all ranks in 0.01 s (restart 1 of 3)\n"),
                                HasSubstr("hookline: restarting all ranks in 0.02 s (restart 2 of 3)\n"),
                                Not(HasSubstr("restart 3")), Not(HasSubstr("hookline: error"))));
  const std::string run = sandbox.run_folder();
  for (const std::string rank : {"0", "1"})
    for (const std::string attempt : {"0", "1", "2"})
      EXPECT_THAT(read_file(run + "/attempt_" + attempt + "/" + rank + "/stdout.log"),
                  HasSubstr("attempt " + attempt + " of rank " + rank + ", "));
  EXPECT_THAT(read_file(run + "/attempt_2/1/stdout.log"), HasSubstr("at most 3\n"));
}

TEST(Restarts, GiveTheRanksTheSameLimitsEachTime) {
  const Sandbox sandbox;
  sandbox.script("train", "echo files $(ulimit -n)\n[ $TORCHELASTIC_RESTART_COUNT = 2 ]\n");
  auto options =
      sandbox.options({"-c", "ulimit -Sn 64; exec " HOOKLINE_BINARY
                             " launch --set launch.restart_delay_seconds=0 --set launch.max_restarts=2 "
                             "./train"});
  const ProcessResult result = testing::run_process("sh", options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "[0] files 64\n[0] files 64\n[0] files 64\n");
}

TEST(Restarts, ReportTheLastFailure) {
  const Sandbox sandbox;
  sandbox.script("train", "exit $((20 + TORCHELASTIC_RESTART_COUNT))\n");
  const ProcessResult result = sandbox.run(launch({"--set", "launch.max_restarts=2", "./train"}));
  EXPECT_EQ(result.exit_code, 22);
  EXPECT_THAT(
      result.err,
      HasSubstr("hookline: no restart: the ranks were restarted 2 times, as often as max_restarts allows\n"
                "hookline: error: rank 0 exited with code 22\n"));
}

TEST(Restarts, AreNotSpentOnBadInput) {
  const Sandbox sandbox;
  sandbox.script("train", "exit 2\n");
  const ProcessResult result = sandbox.run(launch({"--set", "launch.max_restarts=9", "./train"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("hookline: no restart: exit code 2 means bad input, "),
                                HasSubstr(")\nhookline: error: rank 0 exited with code 2\n")));
}

TEST(Restarts, StopIfTheErrorFileNamesTheSameStepTwice) {
  const Sandbox sandbox;
  sandbox.script(
      "train",
      R"(echo '{"message": {"message": "fell", "extraInfo": {"step": 7}}}' > $TORCHELASTIC_ERROR_FILE
exit 1
)");
  const ProcessResult result = sandbox.run(launch({"--set", "launch.max_restarts=9", "./train"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("(restart 1 of 9)"), Not(HasSubstr("(restart 2 of 9)")),
                    HasSubstr("hookline: no restart: "), HasSubstr(" in the same way at step 7 ")));
}

TEST(Restarts, AreNotMadeAfterAStopRequest) {
  const Sandbox sandbox;
  sandbox.script("train", "exit 7\n");
  Process process(HOOKLINE_BINARY, sandbox.options({"launch", "--set", "launch.restart_delay_seconds=600",
                                                    "--set", "launch.max_restarts=1", "./train"}));
  ASSERT_TRUE(process.wait_for("restarting all ranks in 600 s"));
  process.signal(SIGTERM);
  const ProcessResult result = process.wait();
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_THAT(result.err, HasSubstr("hookline: stopped by SIGTERM while no ranks were running\n"));
}

}  // namespace
}  // namespace hookline
