// `hookline launch` of ranks that report progress or stall.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "cli/run_hookline.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using testing::eventually;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Process;
using testing::ProcessResult;
using testing::read_file;
using testing::Sandbox;

/// Writes `train` in bash, which can redirect to descriptors above 9; its function `tell` reports a status.
void bash_script(const Sandbox& sandbox, const std::string& text) {
  sandbox.folder.write(
      "train", "#!/bin/bash\ntell() { printf \"rank=$RANK $*\" >&$HOOKLINE_STATUS_FD; }\n" + text, true);
}

TEST(Stall, EndsARunNamingTheRankThatIsBehind) {
  const Sandbox sandbox;
  bash_script(sandbox, "tell step=$((5 - RANK))\nexec sleep 600\n");
  const ProcessResult result = sandbox.run(
      {"launch", "--processes-per-node", "2", "--set", "launch.stall_timeout_seconds=0.5", "./train"});
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr("hookline: warning: no rank has finished a step for 0.5 s: rank 0 at step 5, rank 1 "
                      "at step 4\n"),
            HasSubstr(
                "hookline: error: rank 1 finished no step for 0.5 s ([launch] stall_timeout_seconds)\n")));
}

// Ranks 0 and 1 have gone longest without finishing a step, but only because they wait for rank 2.
TEST(Stall, NamesTheRankThatIsInNoCollective) {
  const Sandbox sandbox;
  bash_script(sandbox,
              "tell step=5\n[ $RANK = 2 ] && sleep 0.3 && tell step=6\n"
              "[ $RANK = 2 ] || tell step=5 waiting=1\nexec sleep 600\n");
  const ProcessResult result = sandbox.run(
      {"launch", "--processes-per-node", "3", "--set", "launch.stall_timeout_seconds=1", "./train"});
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr(": rank 2 at step 6, ranks 0 and 1 waiting in a collective at step 5\n"),
            HasSubstr("hookline: error: rank 2 finished no step for 1 s ([launch] stall_timeout_seconds)\n"
                      "  it is outside of any collective, and ranks 0 and 1 wait for it in one\n")));
}

TEST(Stall, NamesTheRankThatHasNotJoinedTheRun) {
  const Sandbox sandbox;
  bash_script(sandbox,
              "[ $RANK = 1 ] && exec sleep 600\ntell step=0\ntell step=0 waiting=1\nexec sleep 600\n");
  const ProcessResult result = sandbox.run(
      {"launch", "--processes-per-node", "2", "--set", "launch.stall_timeout_seconds=0.5", "./train"});
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_THAT(
      result.err,
      HasSubstr("hookline: error: rank 1 finished no step for 0.5 s ([launch] stall_timeout_seconds)\n"
                "  it has not joined the run (Accelerator::from_env), and rank 0 waits in a collective\n"));
}

TEST(Stall, NamesAllRanksThatAreOutsideOfACollective) {
  const Sandbox sandbox;
  bash_script(sandbox, "tell step=5\n[ $RANK = 1 ] && tell step=5 waiting=1\nexec sleep 600\n");
  const ProcessResult result = sandbox.run(
      {"launch", "--processes-per-node", "3", "--set", "launch.stall_timeout_seconds=0.5", "./train"});
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_THAT(result.err,
              HasSubstr("\n  ranks 0 and 2 are outside of any collective, and rank 1 waits for them "
                        "in one\n"));
  bash_script(sandbox, "tell step=5\nexec sleep 600\n");
  const ProcessResult nobody_waits = sandbox.run(
      {"launch", "--processes-per-node", "2", "--set", "launch.stall_timeout_seconds=0.5", "./train"});
  EXPECT_THAT(nobody_waits.err,
              ContainsRegex("\n  nor did rank [01], at the same step: none of them waits in a collective\n"));
}

TEST(Stall, SaysWhenEveryRankIsInACollective) {
  const Sandbox sandbox;
  bash_script(sandbox, "tell step=5\ntell step=5 waiting=1\nexec sleep 600\n");
  const ProcessResult result = sandbox.run(
      {"launch", "--processes-per-node", "2", "--set", "launch.stall_timeout_seconds=0.5", "./train"});
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_THAT(
      result.err,
      HasSubstr(
          "\n  it waits in a collective, as all ranks of this host do: either they make different calls, or "
          "they wait for a rank of another host\n"));
}

TEST(Stall, IsNotDeclaredForProgressingOrSilentRanks) {
  const Sandbox sandbox;
  bash_script(sandbox, "for step in 1 2 3 4 5 6 7 8; do tell step=$step; sleep 0.1; done\n");
  EXPECT_EQ(sandbox.run({"launch", "--set", "launch.stall_timeout_seconds=0.6", "./train"}).exit_code, 0);
  bash_script(sandbox, "sleep 1\n");
  EXPECT_EQ(sandbox.run({"launch", "--set", "launch.stall_timeout_seconds=0.3", "./train"}).exit_code, 0);
}

TEST(Stall, WritesTheStacksOfStuckRanksWithGdb) {
  const Sandbox sandbox;
  bash_script(sandbox, "tell step=1\nexec sleep 600\n");
  const ProcessResult result = sandbox.run({"launch", "--set", "launch.stall_timeout_seconds=0.3", "--set",
                                            "launch.stall_stacks=true", "./train"});
  EXPECT_EQ(result.exit_code, 124);
  const std::string folder = sandbox.run_folder() + "/attempt_0/0/";
  if (!std::filesystem::exists(folder + "stacks.txt")) GTEST_SKIP() << "gdb is not here";
  EXPECT_THAT(result.err,
              HasSubstr("hookline: gdb writes the ranks' stacks to stacks.txt beside their logs\n"));
  EXPECT_THAT(read_file(folder + "stacks.txt"), ContainsRegex("#[0-9].*(nanosleep|clock_nanosleep|ptrace)"));
}

TEST(Stall, WritesTheStacksOfAScriptsChildren) {
  const Sandbox sandbox;
  bash_script(sandbox, "tell step=1\nsleep 600\n:\n");
  const ProcessResult result = sandbox.run({"launch", "--set", "launch.stall_timeout_seconds=0.3", "--set",
                                            "launch.stall_stacks=true", "./train"});
  EXPECT_EQ(result.exit_code, 124);
  const std::filesystem::path folder = sandbox.run_folder() + "/attempt_0/0";
  if (!std::filesystem::exists(folder / "stacks.txt")) GTEST_SKIP() << "gdb is not here";
  std::string of_sleep;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (file.path().filename().string().starts_with("stacks-")) of_sleep += read_file(file.path());
  EXPECT_THAT(of_sleep, ContainsRegex("#[0-9].*(nanosleep|clock_nanosleep|ptrace)"));
}

TEST(Stall, IsReportedWithoutGdb) {
  const Sandbox sandbox;
  bash_script(sandbox, "PATH=$OLD_PATH; tell step=1\nexec sleep 600\n");
  auto options = sandbox.options({"launch", "--set", "launch.stall_timeout_seconds=0.3", "--set",
                                  "launch.stall_stacks=true", "./train"});
  options.environment["OLD_PATH"] = std::getenv("PATH");
  options.environment["PATH"] = "/nowhere";
  const ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_THAT(result.err,
              HasSubstr("hookline: warning: the stacks of rank 0 are not complete: gdb is not here; install "
                        "it, or add it to PATH\n"));
}

TEST(Stall, AtTheSameStepTwiceIsNotRestarted) {
  const Sandbox sandbox;
  bash_script(sandbox, "tell step=7\nexec sleep 600\n");
  const ProcessResult result =
      sandbox.run({"launch", "--set", "launch.stall_timeout_seconds=0.2", "--set", "launch.max_restarts=5",
                   "--set", "launch.restart_delay_seconds=0", "./train"});
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("(restart 1 of 5)"), Not(HasSubstr("(restart 2 of 5)")),
                    HasSubstr("hookline: no restart: "), HasSubstr(" in the same way at step 7 ")));
}

TEST(EarlyExit, IsLoggedWhileOtherRanksStillRun) {
  const Sandbox sandbox;
  bash_script(sandbox, "tell step=3\n[ $RANK = 1 ] && exit 0\nuntil [ -e go ]; do sleep 0.01; done\n");
  Process process(HOOKLINE_BINARY, sandbox.options({"launch", "--processes-per-node", "2", "--set",
                                                    "launch.early_exit_seconds=0.2", "./train"}));
  EXPECT_TRUE(process.wait_for(
      "hookline: warning: rank 1 exited 0.2 s ago with code 0, and the others still run: rank 0 "
      "at step 3; if they wait for rank 1, they wait forever\n"));
  sandbox.folder.write("go", "");
  EXPECT_EQ(process.wait().exit_code, 0);
}

// The first rank to exit did not fail (code 0), but without it the others cannot continue.
TEST(EarlyExit, IsNamedAsWhatTheOthersWereWaitingFor) {
  const Sandbox sandbox;
  bash_script(sandbox, "tell step=3\n[ $RANK = 1 ] && exit 0\ntell step=3 waiting=1\nsleep 0.5\nexit 1\n");
  const ProcessResult result = sandbox.run({"launch", "--processes-per-node", "2", "./train"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("hookline: error: rank 0 exited with code 1, after rank 1 had exited with code 0 at "
                        "step 3, while others "));
}

TEST(EarlyExit, IsMentionedWithAFailureItMayNotExplain) {
  const Sandbox sandbox;
  bash_script(sandbox, "[ $RANK = 1 ] && exit 0\nsleep 0.5\nexit 4\n");
  const ProcessResult result = sandbox.run({"launch", "--processes-per-node", "2", "./train"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("hookline: error: rank 0 exited with code 4\n"
                                    "  before that, rank 1 had exited with code 0\n"));
}

TEST(EarlyExit, IsNamedAsWhatStuckRanksWaitFor) {
  const Sandbox sandbox;
  bash_script(sandbox, "tell step=3\n[ $RANK = 1 ] && exit 0\ntell step=3 waiting=1\nexec sleep 600\n");
  const ProcessResult result = sandbox.run(
      {"launch", "--processes-per-node", "2", "--set", "launch.stall_timeout_seconds=1", "./train"});
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_THAT(result.err,
              HasSubstr("\n  it waits in a collective, as do all ranks that still run on this host, and rank "
                        "1 has already exited with code 0 at step 3\n"));
}

TEST(Status, IsAPeriodicPlainLineWithoutATerminal) {
  const Sandbox sandbox;
  bash_script(sandbox,
              "tell step=10 loss=0.5 sent=0; sleep 0.1; tell step=20 loss=0.25 sent=1000000\n"
              "until [ -e go ]; do sleep 0.01; done\n");
  Process process(HOOKLINE_BINARY,
                  sandbox.options({"launch", "--set", "logging.status_interval_seconds=0.3", "./train"}));
  EXPECT_TRUE(process.wait_for(" · step 20 · ")) << process.err();
  sandbox.folder.write("go", "");
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err,
              ContainsRegex("\nhookline: 0:0[0-9] · 1 of 1 rank · step 20 · [0-9.e+]+ steps/s · loss 0.25 · "
                            "[0-9.]+ [kM]B/s\n"));
  EXPECT_THAT(result.err, Not(HasSubstr("\x1b")));
}

TEST(Status, IsALiveLineOnATerminalAndOutputDoesNotBreakIt) {
  const Sandbox sandbox;
  bash_script(sandbox, "tell step=10\nuntil [ -e go ]; do sleep 0.01; done\necho one line\necho two lines\n");
  // script(1) gives it a pseudo-terminal.
  Process process("script", sandbox.options({"-qfec", HOOKLINE_BINARY " launch ./train", "/dev/null"}));
  ASSERT_TRUE(process.wait_for("\r\x1b[2K0:00 · 1 of 1 rank · step 10"));
  sandbox.folder.write("go", "");
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 0);
  // Each output line starts on a fresh line or where the live line was erased; nothing of the live line
  // remains at the end.
  for (const std::string line : {"[0] one line\r\n", "[0] two lines\r\n"}) {
    const std::size_t at = result.out.find(line);
    ASSERT_NE(at, std::string::npos) << result.out;
    EXPECT_THAT(result.out.substr(0, at), ::testing::AnyOf(EndsWith("\n"), EndsWith("\r\x1b[2K")));
  }
  EXPECT_THAT(result.out, ::testing::AnyOf(EndsWith("\n"), EndsWith("\r\x1b[2K")));
}

TEST(Status, IsNotPrintedForRanksThatReportNothing) {
  const Sandbox sandbox;
  bash_script(sandbox, "sleep 0.4\n");
  const ProcessResult result =
      sandbox.run({"launch", "--set", "logging.status_interval_seconds=0.1", "./train"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, Not(HasSubstr("1 of 1 rank")));
}

TEST(Status, CanBeSwitchedOff) {
  const Sandbox sandbox;
  bash_script(sandbox, "tell step=10\nsleep 0.4\n");
  const ProcessResult result = sandbox.run(
      {"launch", "--set", "logging.status=off", "--set", "logging.status_interval_seconds=0.1", "./train"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, Not(HasSubstr("step 10")));
}

}  // namespace
}  // namespace hookline
