// The stack traces that gdb writes for ranks that hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/run_hookline.h"
#include "launcher/supervise/stacks.h"

namespace hookline {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProcessResult;
using testing::Sandbox;

ProcessResult launch_until_stall(const Sandbox& sandbox, int ranks, const std::string& depth,
                                 const std::string& path = "") {
  auto options = sandbox.options({"launch", "--processes-per-node", std::to_string(ranks), "--set",
                                  "launch.stall_timeout_seconds=2", "--set", "launch.stall_stacks=true",
                                  HUNG_RANK, depth});
  options.limit = std::chrono::seconds(240);
  if (!path.empty()) options.environment["PATH"] = path + ":" + std::getenv("PATH");
  return testing::run_process(HOOKLINE_BINARY, options);
}

std::string stacks_of(const Sandbox& sandbox, int rank) {
  const std::string file = sandbox.run_folder() + "/attempt_0/" + std::to_string(rank) + "/stacks.txt";
  return std::filesystem::exists(file) ? testing::read_file(file) : "";
}

TEST(Stacks, CoverAllThreadsOfEightRanks) {
  const Sandbox sandbox;
  const ProcessResult result = launch_until_stall(sandbox, 8, "3");
  EXPECT_EQ(result.exit_code, 124);
  if (result.err.find("gdb is not here") != std::string::npos) GTEST_SKIP() << "gdb is not here";
  EXPECT_THAT(result.err, Not(HasSubstr("are not complete")));
  for (int rank = 0; rank < 8; ++rank) {
    SCOPED_TRACE(rank);
    EXPECT_THAT(stacks_of(sandbox, rank),
                AllOf(ContainsRegex("#[0-9]+ [^\n]*hang_in_first_thread"),
                      ContainsRegex("#[0-9]+ [^\n]*hang_in_second_thread"),
                      ContainsRegex("#[0-9]+ [^\n]*descend[^\n]*\n#[0-9]+ [^\n]*main"),
                      Not(HasSubstr("may be deeper"))));
  }
}

TEST(Stacks, SayWhereTheyAreCut) {
  const Sandbox sandbox;
  const ProcessResult result = launch_until_stall(sandbox, 1, "3000");
  EXPECT_EQ(result.exit_code, 124);
  if (result.err.find("gdb is not here") != std::string::npos) GTEST_SKIP() << "gdb is not here";
  EXPECT_THAT(stacks_of(sandbox, 0),
              HasSubstr("hookline: the stack of Thread 1 may be deeper: only the 1000 innermost calls are "
                        "shown\n"));
}

// If gdb may not attach, it prints an error but exits with 0.
TEST(Stacks, MissingOnesHaveAReason) {
  const Sandbox sandbox;
  const auto gdb = [&](const std::string& body) {
    sandbox.folder.write("bin/gdb", "#!/bin/sh\n" + body, true);
    return (sandbox.folder.path() / "bin").string();
  };
  const std::string refused = "Could not attach to process.\nptrace: Operation not permitted.";
  const ProcessResult result = launch_until_stall(sandbox, 3, "1", gdb("printf '" + refused + "\\n'\n"));
  EXPECT_EQ(result.exit_code, 124);
  const std::string why =
      "the system does not let gdb look (ptrace: Operation not permitted.); see "
      "/proc/sys/kernel/yama/ptrace_scope, and give a container the capability SYS_PTRACE\n";
  EXPECT_THAT(result.err,
              HasSubstr("hookline: warning: the stacks of ranks 0, 1 and 2 are not complete: " + why));
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(stacks_of(sandbox, rank), HasSubstr("hookline: these stacks are not complete: " + why));

  EXPECT_THAT(launch_until_stall(sandbox, 2, "1", gdb("kill -SEGV $$\n")).err,
              HasSubstr("hookline: warning: the stacks of ranks 0 and 1 are not complete: gdb was killed by "
                        "SIGSEGV (signal 11"));
}

TEST(Stacks, ReportThreadsThatGdbOmits) {
  const std::string text =
      "[New LWP 2]\n\nThread 2 (Thread 0x7f (LWP 2) \"train\"):\n#0  0x01 in poll ()\n#1  main ()\n"
      "\nThread 1 (Thread 0x7e (LWP 1) \"train\"):\n#0  0x02 in pause ()\n";
  EXPECT_EQ(stacks_problem(text, 2), "");
  EXPECT_EQ(stacks_problem(text, 3), "gdb shows 2 of 3 threads");
  EXPECT_EQ(stacks_problem("", 3), "gdb shows none");
  EXPECT_EQ(stacks_problem("No symbol table is loaded.\n", 3),
            "gdb shows none; it says: No symbol table is loaded.");
}

/// Two sleeping processes, and a gdb that never finishes.
class SlowGdb : public ::testing::Test {
 protected:
  SlowGdb() {
    folder_.write("gdb", "#!/bin/sh\nexec sleep 600\n", true);
    setenv("PATH", (folder_.path().string() + ":" + former_path_).c_str(), 1);
    for (int rank = 0; rank < 2; ++rank) {
      const pid_t child = fork();
      if (child == 0) {
        pause();
        _exit(0);
      }
      orders_.push_back({rank, child, folder_.path() / (std::to_string(rank) + ".txt")});
    }
  }
  ~SlowGdb() override {
    setenv("PATH", former_path_.c_str(), 1);
    for (const StackOrder& order : orders_) {
      kill(order.process, SIGKILL);
      waitpid(order.process, nullptr, 0);
    }
  }
  static void wait_for(StackWriters& writers) {
    while (writers.is_busy()) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid > 0) writers.ended(pid, status);
      writers.look(StackWriters::Clock::now());
      usleep(10'000);
    }
  }

  testing::TemporaryFolder folder_;
  std::string former_path_ = std::getenv("PATH");
  std::vector<StackOrder> orders_;
};

TEST_F(SlowGdb, IsTimedOutForEachRankSeparately) {
  StackWriters writers(1, std::chrono::milliseconds(200));
  const auto start = StackWriters::Clock::now();
  writers.start(orders_, start);
  wait_for(writers);
  EXPECT_GE(StackWriters::Clock::now() - start, std::chrono::milliseconds(400)) << "one after the other";
  EXPECT_THAT(writers.problems(4),
              ElementsAre("the stacks of ranks 4 and 5 are not complete: gdb took longer than 0.2 s"));
}

TEST_F(SlowGdb, IsAbandonedWhenTheLauncherIsStopped) {
  StackWriters writers(1, std::chrono::minutes(10));
  writers.start(orders_, StackWriters::Clock::now());
  writers.give_up("the launcher was told to stop");
  wait_for(writers);
  EXPECT_THAT(writers.problems(0),
              ElementsAre("the stacks of ranks 0 and 1 are not complete: the launcher was told to stop"));
}

}  // namespace
}  // namespace hookline
