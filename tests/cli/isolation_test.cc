// `hookline launch` with containment of all processes of a run: isolation = "pid", and control groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "cli/run_hookline.h"
#include "support/terminal.h"

namespace hookline {
namespace {

using testing::agent_of;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using testing::eventually;
using ::testing::HasSubstr;
using testing::is_running;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Process;
using testing::ProcessOptions;
using testing::ProcessResult;
using testing::running_with;
using testing::Sandbox;
using testing::sentinel_of;
using ::testing::SizeIs;
using testing::state_of;

using Words = std::vector<std::string>;

/// Finds every process that a test starts, by an environment variable with the test's folder, and kills
/// leftovers.
class Isolated : public ::testing::Test {
 protected:
  ~Isolated() override {
    // Repeatedly: one pass can miss links of a chain of forking processes.
    for (int i = 0; i < 1000 && !all().empty(); ++i)
      for (const pid_t pid : all()) kill(pid, SIGKILL);
  }

  ProcessOptions options(const Words& arguments) const {
    ProcessOptions result = sandbox_.options(arguments);
    result.environment["ISOLATION_MARK"] = sandbox_.folder.path().string();
    return result;
  }
  Words launch(const Words& flags, const Words& program = {"./train"}) const {
    Words arguments = {"launch", "--set", "launch.isolation=pid", "--set", "launch.grace_period_seconds=0.5"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.insert(arguments.end(), program.begin(), program.end());
    return arguments;
  }
  ProcessResult run(const Words& flags) const { return run_process(HOOKLINE_BINARY, options(launch(flags))); }

  /// Why no PID namespace can be created here; empty if one can.
  std::string refusal() const {
    const ProcessResult result = run_process(HOOKLINE_BINARY, options(launch({"--dry-run"}, {"true"})));
    return result.exit_code == 0 ? "" : result.err;
  }

  std::vector<pid_t> all() const { return running_with("ISOLATION_MARK=" + sandbox_.folder.path().string()); }
  std::vector<pid_t> all_but(const std::vector<pid_t>& own) const {
    std::vector<pid_t> pids = all();
    std::erase_if(pids, [&](pid_t pid) { return std::count(own.begin(), own.end(), pid) > 0; });
    return pids;
  }

  Sandbox sandbox_;
};

#define SKIP_IF_REFUSED()                                    \
  if (const std::string why = refusal(); !why.empty()) {     \
    EXPECT_THAT(why, HasSubstr("which can't be made here")); \
    GTEST_SKIP() << why;                                     \
  }                                                          \
  static_assert(true)

/// Six processes per rank: the script and a child, two that ignore SIGTERM, and two in a session of their
/// own.
constexpr const char* kFamily =
    "sleep 600 &\n"
    "(trap '' TERM HUP; sleep 600; :) &\n"
    "(setsid sh -c 'sleep 600; :' &)\n"
    "echo ready $RANK\n"
    "wait\n";
constexpr std::size_t kFamilySize = 6;

TEST_F(Isolated, LeavesNothingBehindWhenAllItsProcessesAreKilledAtOnce) {
  SKIP_IF_REFUSED();
  sandbox_.script("train", kFamily);
  for (int i = 0; i < 5; ++i) {
    Process process(HOOKLINE_BINARY, options(launch({"--processes-per-node", "3"})));
    for (const char* ready : {"ready 0", "ready 1", "ready 2"})
      ASSERT_TRUE(process.wait_for(ready)) << process.err();
    const std::vector<pid_t> own = {process.pid(), sentinel_of(process.pid()), agent_of(process.pid())};
    ASSERT_TRUE(own[1] > 0 && own[2] > 0);
    EXPECT_TRUE(eventually([&] { return all_but(own).size() == 3 * kFamilySize; }));
    // Stopped first, so that none reacts before all are dead.
    for (const pid_t pid : own) kill(pid, SIGSTOP);
    for (const pid_t pid : own) ASSERT_TRUE(eventually([&] { return state_of(pid) == 'T'; }));
    for (const pid_t pid : own) kill(pid, SIGKILL);
    EXPECT_EQ(process.wait().exit_code, 128 + SIGKILL);
    EXPECT_TRUE(eventually([&] { return all().empty(); })) << all().size() << " are left";
  }
}

class IsolatedAndKilled : public Isolated, public ::testing::WithParamInterface<std::string> {};

TEST_P(IsolatedAndKilled, LeavesNothingBehindAndSaysWhatWasKilled) {
  SKIP_IF_REFUSED();
  sandbox_.script("train", kFamily);
  Process process(HOOKLINE_BINARY, options(launch({"--processes-per-node", "3"})));
  for (const char* ready : {"ready 0", "ready 1", "ready 2"})
    ASSERT_TRUE(process.wait_for(ready)) << process.err();
  ASSERT_TRUE(sentinel_of(process.pid()) > 0 && agent_of(process.pid()) > 0);
  const bool kills_launcher = GetParam() == "launcher", kills_sentinel = GetParam() == "sentinel";
  kill(kills_launcher   ? process.pid()
       : kills_sentinel ? sentinel_of(process.pid())
                        : agent_of(process.pid()),
       SIGKILL);
  EXPECT_EQ(process.wait().exit_code, 128 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return all().empty(); })) << all().size() << " are left";
  EXPECT_TRUE(process.wait_for(kills_launcher   ? "error: the launcher was killed;"
                               : kills_sentinel ? "error: the launcher's sentinel was killed;"
                                                : "supervises the ranks, was killed by SIGKILL (signal 9);"))
      << process.err();
}

INSTANTIATE_TEST_SUITE_P(Isolated, IsolatedAndKilled, ::testing::Values("launcher", "sentinel", "agent"),
                         [](const auto& instance) { return instance.param; });

TEST_F(Isolated, ReportsExitCodesSignalsAndErrorFilesAsUsual) {
  SKIP_IF_REFUSED();
  sandbox_.script("train", "[ $RANK = 1 ] || exec sleep 600\necho boom >&2; exit 7\n");
  const ProcessResult failed = run({"--processes-per-node", "3"});
  EXPECT_EQ(failed.exit_code, 7);
  EXPECT_THAT(failed.err, HasSubstr("hookline: error: rank 1 exited with code 7\n"
                                    "  the end of its standard error:\n    boom\n"));
  EXPECT_EQ(sandbox_.read("hookline-runs/latest/attempt_0/1/stderr.log"), "boom\n");
  sandbox_.script("train", "kill -SEGV $$\n");
  EXPECT_EQ(run({}).exit_code, 128 + SIGSEGV);
  sandbox_.script("train", "echo '{\"message\": {\"message\": \"no\"}}' >$TORCHELASTIC_ERROR_FILE\nexit 1\n");
  EXPECT_THAT(run({}).err, HasSubstr("  its error:\n    no\n"));
  EXPECT_THAT(all(), IsEmpty());
}

TEST_F(Isolated, StopsWhatRanksLeaveBehind) {
  SKIP_IF_REFUSED();
  sandbox_.script("train",
                  "(setsid sh -c 'trap \"\" TERM; echo there >there; sleep 600; :' &)\n"
                  "until [ -s there ]; do sleep 0.01; done\n");
  const ProcessResult result = run({});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("warning: the ranks left processes behind"));
  EXPECT_THAT(all(), IsEmpty());
}

class IsolatedAndTold : public Isolated, public ::testing::WithParamInterface<int> {};

TEST_P(IsolatedAndTold, PassesSignalsOn) {
  SKIP_IF_REFUSED();
  sandbox_.script("train",
                  "trap 'echo told $RANK; exit 3' INT TERM HUP QUIT USR1\necho ready $RANK\n"
                  "while :; do sleep 0.01; done\n");
  Process process(HOOKLINE_BINARY, options(launch({"--processes-per-node", "2"})));
  ASSERT_TRUE(process.wait_for("ready 0") && process.wait_for("ready 1"));
  process.signal(GetParam());
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, GetParam() == SIGUSR1 ? 3 : 128 + GetParam());
  EXPECT_THAT(result.out, AllOf(HasSubstr("told 0\n"), HasSubstr("told 1\n")));
  EXPECT_THAT(all(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Isolated, IsolatedAndTold,
                         ::testing::Values(SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1));

TEST_F(Isolated, StopsAndContinuesOnATerminal) {
  SKIP_IF_REFUSED();
  sandbox_.script("train", kFamily);
  auto with_prompt = options({"--norc", "-i"});
  with_prompt.environment["PS1"] = "$ ";
  testing::Terminal shell("/bin/bash", with_prompt);
  shell.type(HOOKLINE_BINARY
             " launch --set launch.isolation=pid --set logging.status=off --processes-per-node 2 ./train\r");
  ASSERT_TRUE(shell.shows("] ready")) << shell.screen();
  ASSERT_TRUE(shell.shows("] ready")) << shell.screen();
  // Waits for the shell, the launcher, its sentinel and its agent, and the ranks' families: a process that is
  // stopped before it has forked its child would make the number of stopped processes too small.
  ASSERT_TRUE(eventually([&] { return all().size() == 4 + 2 * kFamilySize; })) << all().size();
  const auto count_stopped = [&] {
    const std::vector<pid_t> pids = all();
    return std::count_if(pids.begin(), pids.end(), [](pid_t pid) { return state_of(pid) == 'T'; });
  };
  for (int i = 0; i < 2; ++i) {
    shell.type("\x1a");
    ASSERT_TRUE(shell.shows("Stopped")) << shell.screen();
    // The launcher, and those processes of each rank that stayed in its process group.
    EXPECT_TRUE(eventually([&] { return count_stopped() >= 1 + 2 * 4; })) << count_stopped();
    shell.type("fg\r");
    EXPECT_TRUE(eventually([&] { return count_stopped() == 0; })) << count_stopped();
  }
  shell.type("\x1a");
  ASSERT_TRUE(shell.shows("Stopped")) << shell.screen();
  shell.type("bg\r");
  EXPECT_TRUE(eventually([&] { return count_stopped() == 0; })) << count_stopped();
  shell.type("kill %1\r");
  EXPECT_TRUE(shell.shows("hookline: stopped by SIGTERM")) << shell.screen();
  EXPECT_TRUE(eventually([&] { return all().size() == 1; })) << all().size() << " are left, shell included";
}

TEST_F(Isolated, LeavesNothingBehindWhenItIsKilledWhileItIsStopped) {
  SKIP_IF_REFUSED();
  sandbox_.script("train", kFamily);
  Process process(HOOKLINE_BINARY, options(launch({"--processes-per-node", "2"})));
  ASSERT_TRUE(process.wait_for("ready 0") && process.wait_for("ready 1"));
  process.signal(SIGTSTP);
  ASSERT_TRUE(eventually([&] { return state_of(process.pid()) == 'T'; }));
  process.signal(SIGKILL);
  EXPECT_EQ(process.wait().exit_code, 128 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return all().empty(); })) << all().size() << " are left";
}

TEST_F(Isolated, GivesRanksTheirOwnProcButTheHostsIdsFilesAndNetwork) {
  SKIP_IF_REFUSED();
  sandbox_.script(
      "train",
      "[ $RANK = 0 ] || exec sleep 600\n"
      "echo self $(sh -c 'echo $$; exec readlink /proc/self' | uniq | wc -l)\n"
      "echo first $(cat /proc/1/comm)\n"
      "echo ids $(id -u) $(id -g) $(stat -c %u:%g .)\n"
      "echo folder $(pwd) $(readlink /proc/$$/cwd)\n"
      "echo user >/dev/shm/${ISOLATION_MARK##*/} && mv /dev/shm/${ISOLATION_MARK##*/} shm && cat shm\n"
      "echo net $(readlink /proc/self/ns/net)\n"
      "exit 3\n");
  const ProcessResult result = run({"--processes-per-node", "3"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  const std::string folder = std::filesystem::canonical(sandbox_.folder.path());
  const std::string ids = std::to_string(getuid()) + " " + std::to_string(getgid());
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("self 1\n"), HasSubstr("first hl-agent\n"),
            HasSubstr("ids " + ids + " " + std::to_string(getuid()) + ":" + std::to_string(getgid()) + "\n"),
            HasSubstr("folder " + folder + " " + folder + "\n"), HasSubstr("user\n"),
            HasSubstr("net " + std::filesystem::read_symlink("/proc/self/ns/net").string() + "\n")));
}

TEST_F(Isolated, RestartsRanksWithNoProcessOfThePreviousAttempt) {
  SKIP_IF_REFUSED();
  sandbox_.script(
      "train",
      "if [ $TORCHELASTIC_RESTART_COUNT -lt 2 ]; then\n"
      "  (setsid sh -c 'trap \"\" TERM; echo there >there$TORCHELASTIC_RESTART_COUNT$RANK; sleep 600; :' &)\n"
      "  until [ -s there$TORCHELASTIC_RESTART_COUNT$RANK ]; do sleep 0.01; done; exit 5\n"
      "fi\n"
      "echo sleeps: $(cat /proc/[0-9]*/comm | grep -cx sleep)\n"
      "echo done $RANK\n");
  const ProcessResult result = run({"--processes-per-node", "2", "--set", "launch.max_restarts=2", "--set",
                                    "launch.restart_delay_seconds=0", "--set", "launch.restart=always"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("[0] done 0\n"), HasSubstr("[1] done 1\n"),
                                HasSubstr("[0] sleeps: 0\n"), HasSubstr("[1] sleeps: 0\n")));
  EXPECT_THAT(all(), IsEmpty());
}

TEST_F(Isolated, WritesTheStacksOfStuckRanksWithGdb) {
  SKIP_IF_REFUSED();
  sandbox_.folder.write(
      "train", "#!/bin/bash\nprintf \"rank=$RANK step=1\" >&$HOOKLINE_STATUS_FD\nexec sleep 600\n", true);
  const ProcessResult result = run({"--processes-per-node", "2", "--set", "launch.stall_timeout_seconds=0.5",
                                    "--set", "launch.stall_stacks=true"});
  EXPECT_EQ(result.exit_code, 124) << result.err;
  for (const std::string rank : {"0", "1"}) {
    const std::string file = sandbox_.run_folder() + "/attempt_0/" + rank + "/stacks.txt";
    if (!std::filesystem::exists(file)) GTEST_SKIP() << "gdb is not here";
    EXPECT_THAT(testing::read_file(file), ContainsRegex("#[0-9].*(nanosleep|select|ptrace)"));
  }
  EXPECT_THAT(all(), IsEmpty());
}

TEST_F(Isolated, StopsAChainOfForkingProcesses) {
  SKIP_IF_REFUSED();
  for (int i = 0; i < 5; ++i) {
    sandbox_.script("train", FORK_CHAIN " counter stop\nexit 0\n");
    const ProcessResult result = run({});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(all(), IsEmpty());
    EXPECT_GT(sandbox_.read("counter").size(), 1u);
  }
}

TEST_F(Isolated, IsShownByADryRun) {
  SKIP_IF_REFUSED();
  const ProcessResult result = run_process(HOOKLINE_BINARY, options(launch({"--dry-run"}, {"true"})));
  EXPECT_THAT(result.out, HasSubstr("\nisolation\n  ranks run in a PID namespace of their own\n"));
}

/// Runs shell commands in a user namespace, where a test can change the system's settings safely.
ProcessResult in_user_namespace(const ProcessOptions& options, const std::string& commands) {
  ProcessOptions unshared = options;
  unshared.arguments = {"--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "sh",
                        "-c",     commands};
  return run_process("unshare", unshared);
}

class IsolationRefused : public Isolated {
 protected:
  void expect_refusal(const std::string& spoil, const std::string& wrapper, const std::string& error) {
    sandbox_.script("train", "echo started >started\n");
    if (in_user_namespace(options({}), spoil + "\n" + wrapper + " true").exit_code != 0)
      GTEST_SKIP() << "this system does not let a test make its own user namespace";
    const ProcessResult result =
        in_user_namespace(options({}), spoil + "\nexec " + wrapper +
                                           " " HOOKLINE_BINARY " launch --set launch.isolation=pid ./train");
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err,
              "hookline: error: isolation = \"pid\" (from command line --set launch.isolation) needs a PID "
              "namespace, which "
              "can't be made here: " +
                  error + "; or set isolation = \"none\"\n");
    EXPECT_FALSE(sandbox_.has("started"));
    EXPECT_FALSE(sandbox_.has("hookline-runs"));
  }
};

TEST_F(IsolationRefused, WhereTheSystemAllowsNoNamespace) {
  expect_refusal("set -e; echo 0 >/proc/sys/user/max_pid_namespaces", "",
                 "the system allows none (user.max_pid_namespaces = 0)\n"
                 "  allow some, as root: sysctl -w user.max_pid_namespaces=10000");
}

TEST_F(IsolationRefused, WhereAContainerHidesPartsOfProc) {
  expect_refusal(
      // A nested user namespace may not undo the mount that hides /proc/version.
      "set -e; mount --bind /dev/null /proc/version", "unshare --user --map-root-user --mount",
      "the kernel mounts no /proc for it (Operation not permitted): parts of the present one are hidden, as "
      "they are in containers\n"
      "  start the container with an open /proc (docker run --security-opt systempaths=unconfined, podman "
      "run --security-opt unmask=ALL)");
}

/// The control group that holds a launch's ranks; empty if they have none.
std::filesystem::path group_of(pid_t launcher, const Sandbox& sandbox) {
  const ProcessResult env = sandbox.run({"env"});
  const std::size_t at = env.out.find("control group below: ");
  if (at == env.out.npos || env.out.compare(at, 26, "control group below: none:") == 0) return {};
  const std::size_t begin = env.out.find('/', at);
  return std::filesystem::path(env.out.substr(begin, env.out.find('\n', begin) - begin)) /
         ("hookline-run-" + std::to_string(launcher));
}

class Unkillable : public Isolated, public ::testing::WithParamInterface<std::string> {
 protected:
  ~Unkillable() override { thaw(); }
  void thaw() const {
    std::ofstream(freezer_ / "freezer.state") << "THAWED\n";
    const auto is_over = [&] { return all().empty(); };
    if (!eventually(is_over, std::chrono::seconds(5)))
      for (const pid_t pid : all()) kill(pid, SIGKILL);
    eventually([&] { return rmdir(freezer_.c_str()) == 0 || errno == ENOENT; }, std::chrono::seconds(5));
  }
  const std::filesystem::path freezer_ = "/sys/fs/cgroup/freezer/hookline-test-" + std::to_string(getpid());
};

// Like processes waiting for a dead disk: the cgroup v1 freezer keeps its processes from dying even on
// SIGKILL.
TEST_P(Unkillable, IsNamedAndFailsTheRun) {
  if (GetParam() == "pid") SKIP_IF_REFUSED();
  if (mkdir(freezer_.c_str(), 0755) != 0) GTEST_SKIP() << "no freezer that this user may use";
  const std::string frozen = freezer_.string();
  sandbox_.script("train", "(setsid sh -c 'echo 0 >" + frozen +
                               "/cgroup.procs; echo there >there; exec sleep 600' &)\n"
                               "until [ -s there ]; do sleep 0.01; done\n"
                               "echo FROZEN >" +
                               frozen +
                               "/freezer.state\n"
                               "until grep -q FROZEN " +
                               frozen + "/freezer.state; do sleep 0.01; done\n");
  Process process(HOOKLINE_BINARY, options({"launch", "--set", "launch.isolation=" + GetParam(), "--set",
                                            "launch.grace_period_seconds=0.2", "./train"}));
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 1);
  std::string left;
  for (const pid_t pid : all())
    if (const std::string name = testing::of_process(pid, "comm");
        !name.empty() && name != "hl-agent\n" && name != "run-sentinel\n")
      left = std::to_string(pid);
  EXPECT_THAT(
      result.err,
      EndsWith(
          "hookline: error: processes that the ranks started are still running, and SIGKILL does not end "
          "them: " +
          left + "; look at them with: ps -o pid,stat,wchan,args -p PID\n"));
  thaw();
  if (GetParam() == "none") rmdir(group_of(process.pid(), sandbox_).c_str());  // the frozen process held it
}

INSTANTIATE_TEST_SUITE_P(Isolated, Unkillable, ::testing::Values("none", "pid"),
                         [](const auto& instance) { return instance.param; });

class ControlGroup : public Isolated, public ::testing::WithParamInterface<std::string> {};

TEST_P(ControlGroup, HoldsTheRanksAndIsRemovedWithTheRun) {
  sandbox_.script("train", kFamily);
  Process process(HOOKLINE_BINARY, options({"launch", "--processes-per-node", "3", "--set",
                                            "launch.grace_period_seconds=0.5", "./train"}));
  for (const char* ready : {"ready 0", "ready 1", "ready 2"}) ASSERT_TRUE(process.wait_for(ready));
  const std::filesystem::path group = group_of(process.pid(), sandbox_);
  if (group.empty()) GTEST_SKIP() << "this user is not allowed to make a control group";
  const pid_t sentinel = sentinel_of(process.pid()), agent = agent_of(process.pid());
  EXPECT_TRUE(eventually([&] {
    return all_but({process.pid(), sentinel, agent}).size() == 3 * kFamilySize;
  }));
  std::ifstream members(group / "cgroup.procs");
  EXPECT_EQ((std::set<pid_t>{std::istream_iterator<pid_t>(members), {}}).size(), 3 * kFamilySize);
  if (GetParam() == "interrupted")
    process.signal(SIGINT);
  else
    kill(GetParam() == "launcher" ? process.pid() : GetParam() == "sentinel" ? sentinel : agent, SIGKILL);
  EXPECT_EQ(process.wait().exit_code, GetParam() == "interrupted" ? 128 + SIGINT : 128 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return all().empty(); })) << all().size() << " are left";
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(group); }));
}

/// Launches inside a control group of its own, since the next launch in a group kills what an earlier one
/// left there.
class LeftControlGroup : public Isolated {
 protected:
  LeftControlGroup() {
    const std::filesystem::path any = group_of(0, sandbox_);
    if (!any.empty()) above_ = any.parent_path() / ("hookline-test-" + std::to_string(getpid()));
  }
  ~LeftControlGroup() override {
    if (above_.empty()) return;
    EXPECT_TRUE(eventually([&] { return rmdir(above_.c_str()) == 0; })) << above_;
  }
  void SetUp() override {
    if (above_.empty()) GTEST_SKIP() << "this user is not allowed to make a control group";
    ASSERT_EQ(mkdir(above_.c_str(), 0755), 0) << above_;
  }

  ProcessOptions options_in_group(const Words& arguments) const {
    ProcessOptions result = options(arguments);
    Words words = {"-c", "echo $$ >\"$0/cgroup.procs\" && exec \"$@\"", above_, HOOKLINE_BINARY};
    words.insert(words.end(), result.arguments.begin(), result.arguments.end());
    result.arguments = words;
    return result;
  }

  /// Kills all of a launch's own processes at once and returns the control group that is left behind.
  std::filesystem::path killed_launch() const {
    Process process("/bin/sh", options_in_group({"launch", "--processes-per-node", "3", "./train"}));
    for (const char* ready : {"ready 0", "ready 1", "ready 2"}) EXPECT_TRUE(process.wait_for(ready));
    const std::vector<pid_t> own = {process.pid(), sentinel_of(process.pid()), agent_of(process.pid())};
    for (const pid_t pid : own)
      if (pid <= 0) throw std::runtime_error("a process of the launch is missing");
    for (const pid_t pid : own) kill(pid, SIGSTOP);
    for (const pid_t pid : own) EXPECT_TRUE(eventually([&] { return state_of(pid) == 'T'; }));
    for (const pid_t pid : own) kill(pid, SIGKILL);
    EXPECT_EQ(process.wait().exit_code, 128 + SIGKILL);
    return above_ / ("hookline-run-" + std::to_string(process.pid()));
  }

  std::filesystem::path above_;
};

TEST_F(LeftControlGroup, IsKilledByTheNextLaunch) {
  sandbox_.script("train", kFamily);
  const std::filesystem::path group = killed_launch();
  EXPECT_FALSE(all().empty()) << "children of ranks, which the kernel does not end with the agent";
  const ProcessResult next = run_process("/bin/sh", options_in_group({"launch", "true"}));
  EXPECT_EQ(next.exit_code, 0);
  EXPECT_THAT(next.err,
              HasSubstr("hookline: warning: killed the processes left behind by a launch whose own processes "
                        "were all killed: control group " +
                        group.string() + "\n"));
  EXPECT_TRUE(eventually([&] { return all().empty(); })) << all().size() << " are left";
  EXPECT_FALSE(std::filesystem::exists(group));
}

TEST_F(LeftControlGroup, OfARunningLaunchIsNotTouched) {
  sandbox_.script("train", kFamily);
  for (const std::string who : {"nobody", "the launcher"}) {
    Process running("/bin/sh",
                    options_in_group({"launch", "--set", "launch.grace_period_seconds=0.5", "./train"}));
    ASSERT_TRUE(running.wait_for("ready 0"));
    const pid_t agent = agent_of(running.pid());
    ASSERT_GT(agent, 0);
    const std::vector<pid_t> ranks = testing::children_of(agent);  // the rank and its daemon
    ASSERT_FALSE(ranks.empty());
    // The group counts as in use as long as any of the launcher, its sentinel and its agent is alive.
    kill(agent, SIGSTOP);
    if (who == "the launcher") running.signal(SIGKILL);
    const ProcessResult next = run_process("/bin/sh", options_in_group({"launch", "true"}));
    EXPECT_EQ(next.exit_code, 0);
    EXPECT_THAT(next.err, Not(HasSubstr("left behind")));
    EXPECT_TRUE(is_running(ranks[0]));
    kill(agent, SIGCONT);
    if (who == "nobody") running.signal(SIGTERM);
    running.wait();
    EXPECT_TRUE(eventually([&] { return all().empty(); })) << all().size() << " are left";
  }
}

class NestedControlGroup : public Isolated {};

TEST_F(NestedControlGroup, IsRemovedWithTheRun) {
  sandbox_.script("train",
                  "mount=$(awk '/ - cgroup2 / { print $5; exit }' /proc/self/mountinfo)\n"
                  "group=$mount$(sed -n 's/^0:://p' /proc/self/cgroup)\n"
                  "echo $group > group\n"
                  "case $group in */hookline-run-*) mkdir -p $group/own/inner $group/other;; esac\n");
  const ProcessResult result = run_process(HOOKLINE_BINARY, options({"launch", "./train"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("error")));
  std::string group = sandbox_.read("group");
  group.pop_back();
  if (group.find("/hookline-run-") == group.npos)
    GTEST_SKIP() << "this user is not allowed to make a control group";
  EXPECT_FALSE(std::filesystem::exists(group));
}

INSTANTIATE_TEST_SUITE_P(Isolated, ControlGroup,
                         ::testing::Values("launcher", "sentinel", "agent", "interrupted"),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace hookline
