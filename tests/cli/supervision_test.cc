// `hookline launch` when ranks fail, and when the launch is stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "cli/run_hookline.h"
#include "support/terminal.h"

namespace hookline {
namespace {

using testing::agent_of;
using ::testing::AllOf;
using testing::children_of;
using ::testing::EndsWith;
using testing::eventually;
using ::testing::HasSubstr;
using testing::is_running;
using ::testing::Not;
using testing::Process;
using testing::ProcessResult;
using testing::Sandbox;
using testing::sentinel_of;
using testing::state_of;

/// The process ids that scripts wrote to files called NAME.pid.
std::vector<pid_t> pids_in(const Sandbox& sandbox) {
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator(sandbox.folder.path()))
    if (entry.path().extension() == ".pid") {
      pid_t pid = 0;
      if (std::ifstream(entry.path()) >> pid) pids.push_back(pid);
    }
  return pids;
}

/// Whether a sentinel has closed the caller's files: it sets its name only then. Ranks do not wait for it.
bool is_ready(pid_t sentinel) {
  return testing::read_file("/proc/" + std::to_string(sentinel) + "/cmdline").starts_with("run-sentinel");
}

bool all_are_gone(const std::vector<pid_t>& pids) {
  return std::none_of(pids.begin(), pids.end(), is_running);
}

/// A rank that starts a child, writes both process ids to files, and then prints "ready".
constexpr const char* kSleepWithAChild =
    "echo $$ >rank$RANK.pid\nsleep 600 & echo $! >child$RANK.pid\necho ready$RANK\nwait\n";

TEST(Supervision, ExitsWithTheCodeOfTheFirstRankThatFails) {
  const Sandbox sandbox;
  sandbox.script("train", "[ $RANK = 1 ] || exec sleep 600\necho loading >&2; echo boom >&2; exit 7\n");
  const ProcessResult result = sandbox.run({"launch", "--processes-per-node", "3", "./train"});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_THAT(result.err, EndsWith("hookline: error: rank 1 exited with code 7\n"
                                   "  the end of its standard error:\n"
                                   "    loading\n"
                                   "    boom\n"
                                   "  its logs on " +
                                   testing::host_name() + ": " + sandbox.run_folder() + "/attempt_0/1/\n"));
}

TEST(Supervision, BlamesTheFirstFailureAmongExitsSeenAtOnce) {
  // Suspends the agent while the ranks exit: rank 3 first, with success, then rank 2, the first to fail.
  const Sandbox sandbox;
  sandbox.script("train",
                 "echo ready\nuntil [ -e go$RANK ]; do sleep 0.005; done\n[ $RANK = 3 ] && exit 0\n"
                 "exit $((10 + RANK))\n");
  Process process(HOOKLINE_BINARY, sandbox.options({"launch", "--processes-per-node", "4", "./train"}));
  for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(process.wait_for("[" + std::to_string(rank) + "] ready"));
  const pid_t agent = agent_of(process.pid());
  const std::vector<pid_t> ranks = children_of(agent);
  ASSERT_EQ(ranks.size(), 4u);
  kill(agent, SIGSTOP);
  ASSERT_TRUE(eventually([&] { return state_of(agent) == 'T'; }));
  for (const int rank : {3, 2, 0, 1}) {
    sandbox.folder.write("go" + std::to_string(rank), "");
    ASSERT_TRUE(eventually([&] { return state_of(ranks[static_cast<std::size_t>(rank)]) == 'Z'; }));
  }
  kill(agent, SIGCONT);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 12);
  EXPECT_THAT(result.err, HasSubstr("hookline: error: rank 2 exited with code 12\n"));
}

TEST(Supervision, ShowsTheErrorFileOfARankThatWritesOne) {
  const Sandbox sandbox;
  sandbox.script(
      "train",
      "echo '{\"message\": {\"message\": \"ValueError: no\", \"extraInfo\": {\"py_callstack\": \"\", "
      "\"timestamp\": \"1700000000\"}}}' >$TORCHELASTIC_ERROR_FILE\nexit 1\n");
  const ProcessResult result = sandbox.run({"launch", "./train"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("hookline: error: rank 0 exited with code 1\n"
                                    "  its error:\n"
                                    "    ValueError: no\n"
                                    "  it wrote nothing to standard error\n"));
}

TEST(Supervision, WarnsOfAnErrorFileOfARankThatExitsWithZero) {
  const Sandbox sandbox;
  sandbox.script("train", "echo '{\"message\": \"ValueError: no\"}' >$TORCHELASTIC_ERROR_FILE\nexit 0\n");
  const ProcessResult result = sandbox.run({"launch", "./train"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err,
              HasSubstr("hookline: warning: rank 0 exited with code 0, which counts as success, but "
                        "wrote an error to '" +
                        sandbox.run_folder() + "/attempt_0/0/error.json': ValueError: no\n"));
}

// Opening a named pipe blocks until its other end is opened.
TEST(Supervision, DoesNotBlockOnAnErrorFileThatIsAPipe) {
  const Sandbox sandbox;
  sandbox.script("train", "mkfifo $TORCHELASTIC_ERROR_FILE\nexit 9\n");
  const ProcessResult result = sandbox.run({"launch", "./train"});
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 9);
  EXPECT_THAT(result.err, AllOf(HasSubstr("hookline: error: rank 0 exited with code 9\n"
                                          "  its error file is not shown: it is a named pipe"),
                                HasSubstr("\n  it wrote nothing to standard error\n")));
}

// The first attempt can create pipes in place of the second attempt's log files.
TEST(Supervision, DoesNotBlockOnALogThatIsAPipe) {
  const Sandbox sandbox;
  sandbox.script(
      "train",
      "mkdir -p $HOOKLINE_RUN_DIR/attempt_1/0\nmkfifo $HOOKLINE_RUN_DIR/attempt_1/0/stdout.log\nexit 9\n");
  const ProcessResult result = sandbox.run(
      {"launch", "--set", "launch.max_restarts=1", "--set", "launch.restart_delay_seconds=0", "./train"});
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("attempt_1/0/stdout.log' can't be written: it is a named pipe"));
}

TEST(Supervision, NamesTheSignalThatKilledARank) {
  const Sandbox sandbox;
  sandbox.script("train", "kill -SEGV $$\n");
  const ProcessResult result = sandbox.run({"launch", "./train"});
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(result.err,
              ::testing::ContainsRegex(
                  "hookline: error: rank 0 was killed by SIGSEGV \\(signal 11(, core dumped)?\\)\n"
                  "  it wrote nothing to standard error\n"));
}

TEST(Supervision, StopsTheOtherRanksAndWhatTheyStarted) {
  const Sandbox sandbox;
  sandbox.script("train",
                 std::string("if [ $RANK = 1 ]; then until [ -e go ]; do sleep 0.01; done; exit 3; fi\n") +
                     kSleepWithAChild);
  Process process(HOOKLINE_BINARY, sandbox.options({"launch", "--processes-per-node", "2", "./train"}));
  ASSERT_TRUE(process.wait_for("ready0"));
  const std::vector<pid_t> pids = pids_in(sandbox);
  ASSERT_EQ(pids.size(), 2u);
  sandbox.folder.write("go", "");
  EXPECT_EQ(process.wait().exit_code, 3);
  EXPECT_TRUE(all_are_gone(pids));
}

TEST(Supervision, KillsARankThatIgnoresSigterm) {
  const Sandbox sandbox;
  sandbox.script("train",
                 "if [ $RANK = 1 ]; then until [ -e go ]; do sleep 0.01; done; exit 4; fi\n"
                 "trap '' TERM\necho $$ >rank.pid\necho ready\nwhile :; do sleep 1; done\n");
  Process process(HOOKLINE_BINARY, sandbox.options({"launch", "--processes-per-node=2", "--set",
                                                    "launch.grace_period_seconds=0.2", "./train"}));
  ASSERT_TRUE(process.wait_for("ready"));
  const std::vector<pid_t> pids = pids_in(sandbox);
  sandbox.folder.write("go", "");
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("warning: some ranks did not stop"));
  EXPECT_TRUE(all_are_gone(pids));
}

TEST(Supervision, GivesRanksTimeToExitCleanly) {
  const Sandbox sandbox;
  sandbox.script("train",
                 "trap 'sleep 0.3; echo saved $RANK; exit 0' TERM\necho ready$RANK\n"
                 "while :; do sleep 0.01; done\n");
  Process process(HOOKLINE_BINARY, sandbox.options({"launch", "--processes-per-node", "2", "./train"}));
  ASSERT_TRUE(process.wait_for("ready0") && process.wait_for("ready1"));
  process.signal(SIGTERM);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_THAT(result.out, AllOf(HasSubstr("[0] saved 0\n"), HasSubstr("[1] saved 1\n")));
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("hookline: received SIGTERM\n"), EndsWith("hookline: stopped by SIGTERM\n")));
}

class StoppedBy : public ::testing::TestWithParam<int> {};

TEST_P(StoppedBy, LeavesNothingBehind) {
  const Sandbox sandbox;
  // Background processes of a shell ignore SIGINT and SIGQUIT: they outlive the signal and must still be
  // killed.
  sandbox.script("train", kSleepWithAChild);
  Process process(HOOKLINE_BINARY, sandbox.options({"launch", "--processes-per-node", "2", "--set",
                                                    "launch.grace_period_seconds=0.5", "./train"}));
  ASSERT_TRUE(process.wait_for("ready0") && process.wait_for("ready1"));
  const std::vector<pid_t> pids = pids_in(sandbox);
  ASSERT_EQ(pids.size(), 4u);
  process.signal(GetParam());
  EXPECT_EQ(process.wait().exit_code, 128 + GetParam());
  EXPECT_TRUE(all_are_gone(pids));
}

INSTANTIATE_TEST_SUITE_P(Signals, StoppedBy, ::testing::Values(SIGINT, SIGTERM, SIGHUP, SIGQUIT));

TEST(Supervision, KillsAtOnceOnTheSecondInterrupt) {
  const Sandbox sandbox;
  sandbox.script("train",
                 "trap 'echo asked' INT\necho $$ >rank.pid\necho ready\nwhile :; do sleep 0.01; done\n");
  Process process(HOOKLINE_BINARY,
                  sandbox.options({"launch", "--set", "launch.grace_period_seconds=600", "./train"}));
  ASSERT_TRUE(process.wait_for("ready"));
  const std::vector<pid_t> pids = pids_in(sandbox);
  process.signal(SIGINT);
  ASSERT_TRUE(process.wait_for("asked"));
  process.signal(SIGINT);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGINT);
  EXPECT_FALSE(result.timed_out);
  EXPECT_TRUE(all_are_gone(pids));
}

/// A rank with a child, and a daemon outside its process group and session.
constexpr const char* kSleepWithADaemon =
    "echo $$ >rank$RANK.pid\n"
    "(setsid sh -c 'echo $$ >daemon$RANK.pid; exec sleep 600' &)\n"
    "sleep 600 & echo $! >child$RANK.pid\n"
    "until [ -s daemon$RANK.pid ]; do sleep 0.01; done\necho ready$RANK\nwait\n";

class Killed : public ::testing::TestWithParam<std::string> {};

TEST_P(Killed, LeavesNoRankNoChildAndNoDaemon) {
  const Sandbox sandbox;
  sandbox.script("train", kSleepWithADaemon);
  Process process(HOOKLINE_BINARY, sandbox.options({"launch", "--processes-per-node", "2", "./train"}));
  ASSERT_TRUE(process.wait_for("ready0") && process.wait_for("ready1"));
  std::vector<pid_t> pids = pids_in(sandbox);
  ASSERT_EQ(pids.size(), 6u);
  const pid_t sentinel = sentinel_of(process.pid()), agent = agent_of(process.pid());
  ASSERT_TRUE(sentinel > 0 && agent > 0);
  kill(GetParam() == "launcher" ? process.pid() : GetParam() == "sentinel" ? sentinel : agent, SIGKILL);
  EXPECT_EQ(process.wait().exit_code, 128 + SIGKILL);
  pids.push_back(sentinel);
  pids.push_back(agent);
  EXPECT_TRUE(eventually([&] { return all_are_gone(pids); }));
  const std::string told = GetParam() == "launcher" ? "error: the launcher was killed;"
                           : GetParam() == "sentinel"
                               ? "error: the launcher's sentinel was killed;"
                               : "supervises the ranks, was killed by SIGKILL (signal 9); all ranks were "
                                 "killed\n";
  EXPECT_TRUE(eventually([&] { return process.wait_for(told); })) << process.err();
}

INSTANTIATE_TEST_SUITE_P(Supervision, Killed, ::testing::Values("launcher", "sentinel", "agent"),
                         [](const auto& instance) { return instance.param; });

// As `pkill -9 -f` does.
TEST(Supervision, LeavesNothingBehindAfterPkillByCommandLine) {
  const Sandbox sandbox;
  sandbox.script("train", kSleepWithADaemon);
  const std::string program = (sandbox.folder.path() / "train").string();
  auto options = sandbox.options({"launch", "--processes-per-node", "3", program});
  options.environment["SUPERVISION_MARK"] = program;
  Process process(HOOKLINE_BINARY, options);
  for (const char* ready : {"ready0", "ready1", "ready2"}) ASSERT_TRUE(process.wait_for(ready));
  const auto all = [&] { return testing::running_with("SUPERVISION_MARK=" + program); };
  EXPECT_TRUE(eventually([&] { return all().size() >= 11; }))
      << "a process shows no environment while it becomes another program";
  std::vector<pid_t> named;
  for (const pid_t pid : all()) {
    if (testing::of_process(pid, "cmdline").find(program) != std::string::npos) named.push_back(pid);
  }
  EXPECT_GE(named.size(), 4u) << "the launcher and the ranks";
  for (const pid_t pid : named) kill(pid, SIGKILL);  // killing the first one ends some of the others
  EXPECT_EQ(process.wait().exit_code, 128 + SIGKILL);
  const bool is_clean = eventually([&] { return all().empty(); });
  EXPECT_TRUE(is_clean);
  if (!is_clean)
    for (const pid_t pid : all()) kill(pid, SIGKILL);
}

TEST(Supervision, HelperProcessNamesMatchNoWordOfTheCommandLine) {
  const Sandbox sandbox;
  sandbox.script("train", "echo $$ >rank.pid\necho ready\nexec sleep 600\n");
  Process process(HOOKLINE_BINARY, sandbox.options({"launch", "./train"}));
  ASSERT_TRUE(process.wait_for("ready"));
  ASSERT_TRUE(eventually([&] { return is_ready(sentinel_of(process.pid())); }));
  for (const auto& [pid, name] :
       {std::pair{sentinel_of(process.pid()), "run-sentinel"}, {agent_of(process.pid()), "hl-agent"}}) {
    const std::string folder = "/proc/" + std::to_string(pid);
    EXPECT_EQ(testing::read_file(folder + "/comm"), std::string(name) + "\n");
    const std::string command = testing::read_file(folder + "/cmdline");
    EXPECT_STREQ(command.c_str(), name);
    EXPECT_EQ(command.find("train"), command.npos);
  }
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait().exit_code, 128 + SIGTERM);
}

TEST(Supervision, StopsADaemonWithTheRankThatStartedIt) {
  const Sandbox sandbox;
  sandbox.script("train", kSleepWithADaemon);
  Process process(HOOKLINE_BINARY, sandbox.options({"launch", "./train"}));
  ASSERT_TRUE(process.wait_for("ready0"));
  const std::vector<pid_t> pids = pids_in(sandbox);
  ASSERT_EQ(pids.size(), 3u);
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait().exit_code, 128 + SIGTERM);
  EXPECT_TRUE(all_are_gone(pids));
}

class Told : public ::testing::TestWithParam<int> {};

TEST_P(Told, ForwardsTheSignalToTheRanks) {
  const Sandbox sandbox;
  sandbox.script("train", "trap 'echo told; exit 0' USR1 USR2\necho ready\nwhile :; do sleep 0.01; done\n");
  Process process(HOOKLINE_BINARY, sandbox.options({"launch", "--processes-per-node", "2", "./train"}));
  ASSERT_TRUE(process.wait_for("[0] ready") && process.wait_for("[1] ready"));
  process.signal(GetParam());
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("[0] told\n"), HasSubstr("[1] told\n")));
}

INSTANTIATE_TEST_SUITE_P(Supervision, Told, ::testing::Values(SIGUSR1, SIGUSR2));

TEST(Supervision, StopsProcessesThatSuccessfulRanksLeftBehind) {
  const Sandbox sandbox;
  sandbox.script("train", "sleep 600 & echo $! >child.pid\n");
  const ProcessResult result = sandbox.run({"launch", "./train"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_FALSE(result.timed_out);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("warning: the ranks left processes behind"), EndsWith("; stopping them\n")));
  ASSERT_EQ(pids_in(sandbox).size(), 1u);
  EXPECT_TRUE(all_are_gone(pids_in(sandbox)));
}

TEST(Supervision, LetsTheOthersFinishWhenARankExitsEarly) {
  const Sandbox sandbox;
  sandbox.script("train", "[ $RANK = 0 ] && exit 0\nsleep 0.3; echo finished\n");
  const ProcessResult result = sandbox.run({"launch", "--processes-per-node", "2", "./train"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "[1] finished\n");
}

TEST(Supervision, SuspendsAndContinuesTheRanksWithItself) {
  const Sandbox sandbox;
  sandbox.script("train", "echo $$ >rank.pid\necho ready\nexec sleep 600\n");
  Process process(HOOKLINE_BINARY, sandbox.options({"launch", "./train"}));
  ASSERT_TRUE(process.wait_for("ready"));
  const pid_t rank = pids_in(sandbox).at(0);
  process.signal(SIGTSTP);
  EXPECT_TRUE(eventually([&] { return state_of(rank) == 'T' && state_of(process.pid()) == 'T'; }));
  process.signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return state_of(rank) != 'T'; }));
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait().exit_code, 128 + SIGTERM);
}

/// Like kSleepWithAChild, with a daemon in a session of its own.
constexpr const char* kSleepWithAChildAndADaemon =
    "(setsid sh -c 'echo $$ >daemon$RANK.pid; exec sleep 600' &)\n"
    "until [ -s daemon$RANK.pid ]; do sleep 0.01; done\n"
    "echo $$ >rank$RANK.pid\nsleep 600 & echo $! >child$RANK.pid\necho ready$RANK\nwait\n";

// As `timeout -s KILL` and CI runners do.
TEST(Supervision, LeavesNothingBehindWhenItsProcessGroupIsKilled) {
  for (int run = 0; run < 5; ++run) {
    const Sandbox sandbox;
    sandbox.script("train", kSleepWithAChildAndADaemon);
    Process process(HOOKLINE_BINARY, sandbox.options({"launch", "--processes-per-node", "3", "./train"}));
    for (const char* ready : {"ready0", "ready1", "ready2"}) ASSERT_TRUE(process.wait_for(ready));
    std::vector<pid_t> pids = pids_in(sandbox);
    ASSERT_EQ(pids.size(), 9u);
    pids.push_back(agent_of(process.pid()));
    kill(-process.pid(), SIGKILL);
    EXPECT_EQ(process.wait().exit_code, 128 + SIGKILL);
    const bool is_clean = eventually([&] { return all_are_gone(pids); });
    EXPECT_TRUE(is_clean);
    for (const pid_t pid : pids)
      if (!is_clean && is_running(pid)) kill(pid, SIGKILL);
  }
}

TEST(Supervision, StopsAChainOfForkingProcesses) {
  for (int run = 0; run < 5; ++run) {
    const Sandbox sandbox;
    sandbox.script("train", FORK_CHAIN
                   " counter stop\nuntil [ $(cat counter | wc -c) -gt 1 ]; do sleep 0.01; done\nexit 0\n");
    const ProcessResult result =
        sandbox.run({"launch", "--set", "launch.grace_period_seconds=0.1", "./train"});
    const std::string at_the_end = sandbox.read("counter");
    usleep(300'000);
    EXPECT_EQ(sandbox.read("counter").size(), at_the_end.size()) << "the chain continues";
    sandbox.folder.write("stop", "");
    EXPECT_GT(at_the_end.size(), 1u);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.err, HasSubstr("warning: the ranks left processes behind"));
    EXPECT_THAT(result.err, Not(HasSubstr("still running")));
  }
}

/// An interactive shell; launch() starts a launch of two ranks in it, and waits until they are ready.
class JobControl : public ::testing::Test {
 protected:
  JobControl() {
    sandbox_.script("train", kSleepWithAChildAndADaemon);
    auto options = sandbox_.options({"--norc", "-i"});
    options.environment["PS1"] = "$ ";
    shell_.emplace("/bin/bash", options);
  }
  ~JobControl() override {
    if (!eventually([&] { return all_are_gone(pids_); }, std::chrono::seconds(10)))
      for (const pid_t pid : pids_) kill(pid, SIGKILL);
  }

  void launch(const std::string& suffix = "") {
    shell_->type(HOOKLINE_BINARY " launch --set logging.status=off --processes-per-node 2 ./train" + suffix +
                 "\r");
    ASSERT_TRUE(shell_->shows("] ready")) << shell_->screen();
    ASSERT_TRUE(shell_->shows("] ready")) << shell_->screen();
    pids_ = pids_in(sandbox_);
    ASSERT_EQ(pids_.size(), 6u);
  }
  bool ranks_are_stopped() const {
    for (const pid_t pid : pids_of_ranks())
      if (state_of(pid) != 'T') return false;
    return true;
  }
  bool no_rank_is_stopped() const {
    for (const pid_t pid : pids_of_ranks())
      if (state_of(pid) == 'T') return false;
    return true;
  }
  /// Whether the launcher is in the terminal's foreground process group.
  bool is_in_foreground() const {
    const pid_t agent = field_of(pids_of_ranks()[0], kParent), sentinel = field_of(agent, kParent);
    const pid_t launcher = field_of(sentinel, kParent);
    return field_of(launcher, kGroup) == field_of(launcher, kForegroundGroup);
  }
  static constexpr int kParent = 1, kGroup = 2, kForegroundGroup = 5;  // after the name in /proc/PID/stat
  static pid_t field_of(pid_t pid, int field) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(in, text);
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::string value;
    for (int i = 0; i <= field; ++i) fields >> value;
    return std::atoi(value.c_str());
  }
  std::vector<pid_t> pids_of_ranks() const {
    std::vector<pid_t> ranks(2);
    for (std::size_t rank = 0; rank < 2; ++rank)
      std::ifstream(sandbox_.folder.path() / ("rank" + std::to_string(rank) + ".pid")) >> ranks[rank];
    return ranks;
  }

  Sandbox sandbox_;
  std::optional<testing::Terminal> shell_;
  std::vector<pid_t> pids_;
};

TEST_F(JobControl, StopsAndContinuesAndInterruptsEverything) {
  ASSERT_NO_FATAL_FAILURE(launch());
  shell_->type("\x1a");
  ASSERT_TRUE(shell_->shows("Stopped")) << shell_->screen();
  EXPECT_TRUE(eventually([&] { return ranks_are_stopped(); }));
  shell_->type("bg\r");
  EXPECT_TRUE(eventually([&] { return no_rank_is_stopped(); }));
  shell_->type("fg\r");
  ASSERT_TRUE(eventually([&] { return is_in_foreground(); })) << shell_->screen();
  shell_->type("\x1a");
  ASSERT_TRUE(shell_->shows("Stopped")) << shell_->screen();
  EXPECT_TRUE(eventually([&] { return ranks_are_stopped(); }));
  shell_->type("fg\r");
  EXPECT_TRUE(eventually([&] { return no_rank_is_stopped() && is_in_foreground(); }));
  shell_->type(testing::keys::kInterrupt);
  EXPECT_TRUE(shell_->shows("hookline: stopped by SIGINT")) << shell_->screen();
  EXPECT_TRUE(eventually([&] { return all_are_gone(pids_); }));
}

TEST_F(JobControl, LeavesNothingBehindWhenItIsKilledWhileItIsStopped) {
  ASSERT_NO_FATAL_FAILURE(launch());
  shell_->type("\x1a");
  ASSERT_TRUE(shell_->shows("Stopped")) << shell_->screen();
  EXPECT_TRUE(eventually([&] { return ranks_are_stopped(); }));
  shell_->type("kill -9 %1\r");
  EXPECT_TRUE(eventually([&] { return all_are_gone(pids_); }));
}

TEST_F(JobControl, WritesFromTheBackground) {
  shell_->type("stty tostop\r");
  ASSERT_NO_FATAL_FAILURE(launch(" &"));
  shell_->type("kill %1\r");
  EXPECT_TRUE(shell_->shows("hookline: stopped by SIGTERM")) << shell_->screen();
  EXPECT_TRUE(eventually([&] { return all_are_gone(pids_); }));
}

TEST(Supervision, StaysAliveWithoutATerminalWhenHangupIsIgnored) {
  const Sandbox sandbox;
  sandbox.script("train", "echo ready\nuntil [ -e go ]; do sleep 0.01; done\necho finished\n");
  Process process("sh", sandbox.options({"-c", "trap '' HUP; exec " HOOKLINE_BINARY " launch ./train"}));
  ASSERT_TRUE(process.wait_for("ready"));
  process.signal(SIGHUP);
  sandbox.folder.write("go", "");
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("[0] finished\n"));
}

// As `pkill -9 -s` does.
TEST(Supervision, LeavesNothingBehindWhenItsSessionIsKilled) {
  const Sandbox sandbox;
  sandbox.script("train", kSleepWithADaemon);
  auto options = sandbox.options(
      {"--fork", "--wait", HOOKLINE_BINARY, "launch", "--processes-per-node", "2", "./train"});
  options.environment["SUPERVISION_MARK"] = sandbox.folder.path().string();
  Process process("setsid", options);
  ASSERT_TRUE(process.wait_for("ready0") && process.wait_for("ready1"));
  const auto all = [&] {
    return testing::running_with("SUPERVISION_MARK=" + sandbox.folder.path().string());
  };
  const std::vector<pid_t> launcher = children_of(process.pid());
  ASSERT_EQ(launcher.size(), 1u);
  ASSERT_EQ(getsid(launcher[0]), launcher[0]);
  for (const pid_t pid : all())
    if (getsid(pid) == launcher[0]) kill(pid, SIGKILL);
  const bool is_clean = eventually([&] { return all().empty(); });
  EXPECT_TRUE(is_clean) << all().size() << " are left";
  for (const pid_t pid : all()) kill(pid, SIGKILL);
}

TEST(Supervision, ClosesTheCallersFilesInItsSentinel) {
  const Sandbox sandbox;
  sandbox.script("train", "echo ready\nexec sleep 600\n");
  Process process("/bin/bash",
                  sandbox.options({"-c", "exec 9</dev/zero " HOOKLINE_BINARY " launch ./train"}));
  ASSERT_TRUE(process.wait_for("ready"));
  ASSERT_TRUE(eventually([&] { return is_ready(sentinel_of(process.pid())); }));
  std::set<std::string> open;
  const std::string folder = "/proc/" + std::to_string(sentinel_of(process.pid())) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = std::filesystem::read_symlink(entry.path());
    if (entry.path().filename() != "2" && file.find("/hookline-run-") == file.npos) open.insert(file);
  }
  EXPECT_EQ(open, std::set<std::string>{"/dev/null"});
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait().exit_code, 128 + SIGTERM);
}

TEST(Supervision, StartsRanksWithDefaultSignalHandling) {
  const Sandbox sandbox;
  sandbox.script("train", "grep -E 'SigBlk|SigIgn' /proc/self/status\n");
  const ProcessResult result = sandbox.run({"launch", "./train"});
  EXPECT_EQ(result.out, "[0] SigBlk:\t0000000000000000\n[0] SigIgn:\t0000000000000000\n");
}

}  // namespace
}  // namespace hookline
