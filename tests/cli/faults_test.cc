// Kills every process of a launch, in every way and at every time: checks what the launcher reports, and that
// nothing is left behind. The rows of FaultTable are those of launcher/containment/faults.md.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <regex>
#include <sstream>
#include <thread>

#include "cli/run_hookline.h"

namespace hookline {
namespace {

using testing::eventually;
using testing::is_running;
using testing::Process;
using testing::ProcessResult;
using testing::running_with;
using testing::Sandbox;

constexpr int kRanks = 3;

/// Runs the script before$RANK, starts a daemon and a child, and runs then$RANK once the file `go` exists.
constexpr const char* kRank = R"(#!/bin/sh
[ -e before$RANK ] && . ./before$RANK
echo $MASTER_PORT >port
(setsid sh -c 'echo $$ >daemon$RANK.pid; exec sleep 600' &)
sleep 600 & echo $! >child$RANK.pid
until [ -s daemon$RANK.pid ]; do sleep 0.002; done
echo $$ >rank$RANK.pid
echo ready $RANK
until [ -e go ]; do sleep 0.002; done
[ -e then$RANK ] && . ./then$RANK
while :; do sleep 0.002; done
)";

bool can_be_bound(int port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound = bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(descriptor);
  return bound;
}

using Texts = std::map<int, std::string>;  // shell scripts, by rank

/// The arguments of `unshare` to run `program` where it sees no control groups.
std::vector<std::string> without_control_groups(const std::string& program) {
  std::vector<std::string> words = {
      "--mount", "sh", "-c", "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"", "sh", program};
  if (geteuid() != 0) words.insert(words.begin(), {"--user", "--map-root-user"});
  return words;
}

class FaultyRun {
 public:
  FaultyRun(const Texts& before, const Texts& then, const std::vector<std::string>& flags,
            bool hides_control_groups = false)
      : mark_("FAULTS_MARK=" + sandbox_.folder.path().string()) {
    sandbox_.folder.write("train", kRank, true);
    for (const auto& [rank, text] : before) sandbox_.folder.write("before" + std::to_string(rank), text);
    for (const auto& [rank, text] : then) sandbox_.folder.write("then" + std::to_string(rank), text);
    std::vector<std::string> arguments = {"launch", "--processes-per-node", std::to_string(kRanks)};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.push_back("./train");
    auto options = sandbox_.options(arguments);
    options.environment["FAULTS_MARK"] = sandbox_.folder.path().string();
    // A sanitizer would turn the signals that kill the launcher into reports.
    for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS"}) {
      const char* own = std::getenv(name);
      options.environment[name] = (own ? std::string(own) + ":" : "") + "handle_segv=0:handle_abort=0";
    }
    if (!hides_control_groups) {
      process_.emplace(HOOKLINE_BINARY, options);
      return;
    }
    std::vector<std::string> unshared = without_control_groups(HOOKLINE_BINARY);
    unshared.insert(unshared.end(), options.arguments.begin(), options.arguments.end());
    options.arguments = unshared;
    process_.emplace("unshare", options);
  }
  ~FaultyRun() {
    for (const pid_t pid : running_with(mark_))
      kill(pid, SIGKILL);  // there are none unless the test has failed
  }
  FaultyRun(const FaultyRun&) = delete;
  FaultyRun& operator=(const FaultyRun&) = delete;

  void wait_until_ready() {
    for (int rank = 0; rank < kRanks; ++rank)
      ASSERT_TRUE(process_->wait_for("[" + std::to_string(rank) + "] ready")) << process_->err();
  }
  void go() const { sandbox_.folder.write("go", ""); }

  pid_t launcher() const { return process_->pid(); }
  pid_t sentinel() const { return testing::sentinel_of(launcher()); }
  pid_t agent() const { return testing::agent_of(launcher()); }
  const std::string& err() const { return process_->err(); }
  pid_t pid_of(const std::string& name) const {
    pid_t pid = 0;
    std::ifstream(sandbox_.folder.path() / (name + ".pid")) >> pid;
    return pid;
  }
  bool wait_for(const std::string& text) { return process_->wait_for(text); }

  ProcessResult end() {
    ProcessResult result = process_->wait();
    EXPECT_FALSE(result.timed_out);
    // Processes killed together with the launcher may take a moment to disappear.
    EXPECT_TRUE(eventually([&] { return running_with(mark_).empty(); })) << "processes are left";
    process_->wait_for("\x01");  // reads whatever has been written
    result.err = process_->err();
    if (sandbox_.has("port")) {
      const int port = std::atoi(sandbox_.read("port").c_str());
      EXPECT_TRUE(eventually([&] { return can_be_bound(port); })) << "port " << port << " is still taken";
    }
    return result;
  }

 private:
  Sandbox sandbox_;
  std::string mark_;
  std::optional<Process> process_;
};

struct Fault {
  const char *who, *how, *when;
  int exit_code;
  std::string said;  // expected on standard error; empty: not checked
  Texts before = {}, then = {};
  std::function<void(FaultyRun&)> act = [](FaultyRun& run) { run.go(); };
  std::vector<std::string> flags = {};
};

std::string row_of(const Fault& fault) {
  return std::string("| ") + fault.who + " | " + fault.how + " | " + fault.when + " | " +
         std::to_string(fault.exit_code) + " | " + (fault.said.empty() ? "" : "`" + fault.said + "`") + " |";
}

/// Asserts that `pid` is positive: kill(0) would signal the test's own process group.
void kill_process(pid_t pid, int signal) {
  ASSERT_GT(pid, 0);
  kill(pid, signal);
}

auto to_launcher(std::vector<int> signals) {
  return [signals](FaultyRun& run) {
    for (const int signal : signals) {
      kill(run.launcher(), signal);
      if (signals.size() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  };
}

auto to_agent(int signal) {
  return [signal](FaultyRun& run) { kill_process(run.agent(), signal); };
}

auto to_sentinel(int signal) {
  return [signal](FaultyRun& run) {
    kill_process(run.sentinel(), signal);
    if (signal != SIGKILL) run.go();
  };
}

auto to(const std::string& name, int signal) {
  return [name, signal](FaultyRun& run) {
    kill(run.pid_of(name), signal);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    run.go();
  };
}

/// A rank that ignores SIGTERM.
const Texts kStubborn = {{0, "trap '' TERM\n"}};
const std::vector<std::string> kShortGrace = {"--set", "launch.grace_period_seconds=0.2"};
const Texts kAllSucceed = {{0, "exit 0\n"}, {1, "exit 0\n"}, {2, "exit 0\n"}};
const char *kRunning = "in the middle", *kStopping = "while the ranks are being stopped",
           *kStarting = "at the start";
const char* kLeft = "hookline: warning: the ranks left processes behind; stopping them";
const char* kLauncherKilled = "hookline: error: the launcher was killed; killing the ranks";
const char* kSentinelKilled = "hookline: error: the launcher's sentinel was killed; killing the ranks";
const std::string kAgentKilled =
    "hookline: error: the launcher's agent, which supervises the ranks, was killed by ";

std::vector<Fault> faults() {
  const auto killed = [](int rank, const char* name, int number) {
    return "hookline: error: rank " + std::to_string(rank) + " was killed by " + name + " (signal " +
           std::to_string(number);
  };
  const auto exited = [](int rank, int code) {
    return "hookline: error: rank " + std::to_string(rank) + " exited with code " + std::to_string(code);
  };
  std::vector<Fault> rows = {
      {"nobody", "all ranks exit with 0", kRunning, 0, kLeft, {}, kAllSucceed},
      {"rank 0", "exits with 1", kRunning, 1, exited(0, 1), {}, {{0, "exit 1\n"}}},
      {"rank 2", "exits with 7", kRunning, 7, exited(2, 7), {}, {{2, "exit 7\n"}}},
      {"rank 1", "exits with 255", kRunning, 255, exited(1, 255), {}, {{1, "exit 255\n"}}},
      {"rank 1", "exits with 3", kStarting, 3, exited(1, 3), {{1, "exit 3\n"}}, {}, [](FaultyRun&) {}},
      {"all ranks",
       "exit with 5, 5 and 5",
       kRunning,
       5,
       "exited with code 5",
       {},
       {{0, "exit 5\n"}, {1, "exit 5\n"}, {2, "exit 5\n"}}},
      {"rank 0",
       "exits with 0, then rank 2 with 6",
       kRunning,
       6,
       exited(2, 6),
       {},
       {{0, "exit 0\n"}, {2, "sleep 0.1; exit 6\n"}}},
      {"rank 1",
       "exits with 4; rank 0 ignores SIGTERM",
       kRunning,
       4,
       exited(1, 4),
       kStubborn,
       {{1, "exit 4\n"}},
       [](FaultyRun& run) { run.go(); },
       kShortGrace},
      {"rank 1",
       "exits with 4; rank 0 exits with 9 at SIGTERM",
       kRunning,
       4,
       exited(1, 4),
       {{0, "trap 'exit 9' TERM\n"}},
       {{1, "exit 4\n"}}},
      {"rank 1",
       "exits with 4; rank 0 exits with 0 at SIGTERM",
       kRunning,
       4,
       exited(1, 4),
       {{0, "trap 'exit 0' TERM\n"}},
       {{1, "exit 4\n"}}},
      {"rank 1",
       "closes its output, and exits with 8",
       kRunning,
       8,
       exited(1, 8),
       {},
       {{1, "exec >&- 2>&-; exit 8\n"}}},
      {"rank 0",
       "stops itself; rank 2 exits with 5",
       kRunning,
       5,
       exited(2, 5),
       {},
       {{0, "kill -STOP $$\n"}, {2, "sleep 0.1; exit 5\n"}},
       [](FaultyRun& run) { run.go(); },
       kShortGrace},
      {"a child of rank 1",
       "SIGKILL; the ranks exit with 0",
       kRunning,
       0,
       kLeft,
       {},
       kAllSucceed,
       to("child1", SIGKILL)},
      {"a daemon of rank 1",
       "SIGKILL; the ranks exit with 0",
       kRunning,
       0,
       kLeft,
       {},
       kAllSucceed,
       to("daemon1", SIGKILL)},
      {"the launcher", "SIGINT", kRunning, 130, "hookline: stopped by SIGINT", {}, {}, to_launcher({SIGINT})},
      {"the launcher",
       "SIGTERM",
       kRunning,
       143,
       "hookline: stopped by SIGTERM",
       {},
       {},
       to_launcher({SIGTERM})},
      {"the launcher", "SIGHUP", kRunning, 129, "hookline: stopped by SIGHUP", {}, {}, to_launcher({SIGHUP})},
      {"the launcher",
       "SIGQUIT",
       kRunning,
       131,
       "hookline: stopped by SIGQUIT",
       {},
       {},
       to_launcher({SIGQUIT})},
      {"the launcher",
       "SIGINT twice; rank 0 ignores the first",
       kRunning,
       130,
       "hookline: warning: killing the ranks",
       {{0, "trap '' INT\n"}},
       {},
       to_launcher({SIGINT, SIGINT})},
      {"the launcher",
       "SIGTERM; rank 0 ignores it",
       kRunning,
       143,
       "hookline: warning: some ranks did not stop in time; killing them",
       kStubborn,
       {},
       to_launcher({SIGTERM}),
       kShortGrace},
      {"the launcher", "SIGKILL", kRunning, 137, kLauncherKilled, {}, {}, to_launcher({SIGKILL})},
      {"the launcher", "SIGSEGV", kRunning, 139, kLauncherKilled, {}, {}, to_launcher({SIGSEGV})},
      {"the launcher", "SIGABRT", kRunning, 134, kLauncherKilled, {}, {}, to_launcher({SIGABRT})},
      {"the launcher",
       "SIGKILL",
       kStopping,
       137,
       kLauncherKilled,
       kStubborn,
       {},
       to_launcher({SIGTERM, SIGKILL})},
      {"the launcher",
       "SIGUSR1, which ends ranks that do not handle it",
       kRunning,
       138,
       "was killed by SIGUSR1 (signal 10",
       {},
       {},
       to_launcher({SIGUSR1})},
      {"the agent", "SIGKILL", kRunning, 137, kAgentKilled + "SIGKILL (signal 9)", {}, {}, to_agent(SIGKILL)},
      {"the agent", "SIGSEGV", kRunning, 139, kAgentKilled + "SIGSEGV (signal 11", {}, {}, to_agent(SIGSEGV)},
      {"the agent",
       "SIGKILL",
       kStopping,
       137,
       kAgentKilled + "SIGKILL (signal 9)",
       kStubborn,
       {},
       [](FaultyRun& run) {
         kill(run.launcher(), SIGTERM);
         ASSERT_TRUE(run.wait_for("received SIGTERM"));
         kill_process(run.agent(), SIGKILL);
       }},
      {"the agent",
       "SIGTERM, which it ignores unless it comes from the launcher; the ranks exit with 0",
       kRunning,
       0,
       kLeft,
       {},
       kAllSucceed,
       [](FaultyRun& run) {
         kill_process(run.agent(), SIGTERM);
         std::this_thread::sleep_for(std::chrono::milliseconds(50));
         run.go();
       }},
      {"the sentinel", "SIGKILL", kRunning, 137, kSentinelKilled, {}, {}, to_sentinel(SIGKILL)},
      {"the sentinel",
       "SIGKILL",
       kStopping,
       143,
       kSentinelKilled,
       kStubborn,
       {},
       [](FaultyRun& run) {
         kill(run.launcher(), SIGTERM);
         ASSERT_TRUE(run.wait_for("received SIGTERM"));
         kill_process(run.sentinel(), SIGKILL);
       }},
      {"the sentinel",
       "SIGTERM, which it ignores; the ranks exit with 0",
       kRunning,
       0,
       kLeft,
       {},
       kAllSucceed,
       to_sentinel(SIGTERM)},
      {"the sentinel",
       "SIGSTOP; the ranks exit with 0",
       kRunning,
       0,
       kLeft,
       {},
       kAllSucceed,
       to_sentinel(SIGSTOP)},
      {"the sentinel",
       "SIGSTOP; then the launcher gets SIGKILL",
       kRunning,
       137,
       kLauncherKilled,
       {},
       {},
       [](FaultyRun& run) {
         kill_process(run.sentinel(), SIGSTOP);
         kill(run.launcher(), SIGKILL);
       }},
      {"the sentinel",
       "SIGSTOP; then the agent gets SIGKILL",
       kRunning,
       137,
       kAgentKilled + "SIGKILL (signal 9)",
       {},
       {},
       [](FaultyRun& run) {
         kill_process(run.sentinel(), SIGSTOP);
         kill_process(run.agent(), SIGKILL);
       }},
      {"rank 2",
       "exits with 3; then the launcher gets SIGINT",
       kStopping,
       3,
       exited(2, 3),
       kStubborn,
       {{2, "exit 3\n"}},
       [](FaultyRun& run) {
         run.go();
         std::this_thread::sleep_for(std::chrono::milliseconds(50));
         kill(run.launcher(), SIGINT);
       }},
  };
  for (const auto& [name, number] : {std::pair{"SIGKILL", SIGKILL},
                                     {"SIGSEGV", SIGSEGV},
                                     {"SIGABRT", SIGABRT},
                                     {"SIGTERM", SIGTERM},
                                     {"SIGBUS", SIGBUS}})
    rows.push_back(
        {"rank 1", name, kRunning, 128 + number, killed(1, name, number), {}, {}, to("rank1", number)});
  rows.push_back({"rank 0",
                  "SIGKILL",
                  kStopping,
                  143,
                  "hookline: stopped by SIGTERM",
                  kStubborn,
                  {},
                  [](FaultyRun& run) {
                    kill(run.launcher(), SIGTERM);
                    ASSERT_TRUE(run.wait_for("received SIGTERM"));
                    kill(run.pid_of("rank0"), SIGKILL);
                  },
                  kShortGrace});
  return rows;
}

TEST(FaultTable, MatchesTheDocumentedTable) {
  const std::string readme = testing::read_file(FAULTS_TABLE);
  const std::vector<Fault> rows = faults();
  EXPECT_GE(rows.size(), 30u);
  constexpr int kHeaderLines = 2;
  std::istringstream lines(readme);
  int documented = -kHeaderLines;
  for (std::string line; std::getline(lines, line);) documented += line.starts_with("|");
  EXPECT_EQ(documented, static_cast<int>(rows.size())) << "launcher/containment/faults.md has other rows";
  for (const Fault& fault : rows) {
    SCOPED_TRACE(row_of(fault));
    FaultyRun run(fault.before, fault.then, fault.flags);
    if (fault.when != kStarting) run.wait_until_ready();
    if (HasFatalFailure()) return;
    fault.act(run);
    const ProcessResult result = run.end();
    EXPECT_EQ(result.exit_code, fault.exit_code) << result.err;
    EXPECT_THAT(result.err, ::testing::HasSubstr(fault.said));
    EXPECT_NE(readme.find(row_of(fault) + "\n"), readme.npos)
        << "launcher/containment/faults.md lacks the row\n"
        << row_of(fault);
  }
}

TEST(RandomKills, LeaveNothingBehindAndNameTheKilledRank) {
  constexpr int kKills = 200;
  const char* given = std::getenv("HOOKLINE_TEST_SEED");
  const unsigned seed = given ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
  std::mt19937 random(seed);
  const auto pick = [&random](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  for (int i = 0; i < kKills; ++i) {
    const int victim = pick(kRanks + 3);
    const bool is_sentinel = victim == kRanks + 2;  // only SIGKILL ends the sentinel
    const int signal =
        is_sentinel ? SIGKILL : std::array{SIGKILL, SIGSEGV, SIGABRT}[static_cast<std::size_t>(pick(3))];
    const int delay_us = pick(30'000);
    const bool is_rank = victim < kRanks, at_the_start = !is_rank && pick(2) == 0;
    SCOPED_TRACE("seed " + std::to_string(seed) + ", kill " + std::to_string(i) + ": victim " +
                 std::to_string(victim) + ", signal " + std::to_string(signal) + " after " +
                 std::to_string(delay_us) + " us" + (at_the_start ? " from the start" : ""));
    FaultyRun run({}, {}, {});
    if (!at_the_start) run.wait_until_ready();
    if (HasFatalFailure()) return;
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    const pid_t pid = is_rank            ? run.pid_of("rank" + std::to_string(victim))
                      : victim == kRanks ? run.launcher()
                      : is_sentinel      ? run.sentinel()
                                         : run.agent();
    if (pid == 0) {  // the victim has not started yet
      kill(run.launcher(), signal);
    } else {
      kill(pid, signal);
    }
    const ProcessResult result = run.end();
    EXPECT_EQ(result.exit_code, 128 + signal) << result.err;
    if (is_rank) {
      EXPECT_THAT(result.err, ::testing::HasSubstr("hookline: error: rank " + std::to_string(victim) +
                                                   " was killed by "));
    }
    if (HasFailure()) return;
  }
}

struct Killed {
  std::string who;     // initials of launcher, sentinel and agent, in kill order
  std::string bounds;  // what contains the run
  friend std::ostream& operator<<(std::ostream& out, const Killed& killed) {
    return out << killed.who << " " << killed.bounds;
  }
};

/// Kills two of a launch's three processes at once.
class KilledAtOnce : public ::testing::TestWithParam<Killed> {
 protected:
  std::vector<pid_t> victims(const FaultyRun& run) const {
    std::vector<pid_t> pids;
    for (const char letter : GetParam().who)
      pids.push_back(letter == 'l' ? run.launcher() : letter == 's' ? run.sentinel() : run.agent());
    return pids;
  }
};

/// Why this user can't make the namespaces that `bounds` needs; empty if they can.
std::string refusal_of(const std::string& bounds) {
  if (bounds == "group") return "";
  const Sandbox sandbox;
  testing::ProcessOptions hidden;
  hidden.arguments = without_control_groups("true");
  const ProcessResult result =
      bounds == "pid" ? sandbox.run({"launch", "--set", "launch.isolation=pid", "--dry-run", "true"})
                      : testing::run_process("unshare", hidden);
  if (result.exit_code == 0) return "";
  return result.err.empty() ? "exit code " + std::to_string(result.exit_code) : result.err;
}

TEST_P(KilledAtOnce, LeaveNoProcessNoPortAndNoControlGroup) {
  constexpr int kRuns = 10;
  const std::string bounds = GetParam().bounds;
  if (const std::string why = refusal_of(bounds); !why.empty())
    GTEST_SKIP() << "this user is not allowed to make namespaces: " << why;
  for (int i = 0; i < kRuns; ++i) {
    FaultyRun run({}, {},
                  {"--set", "launch.isolation=" + std::string(bounds == "pid" ? "pid" : "none"), "--set",
                   "logging.level=debug"},
                  /*hides_control_groups=*/bounds == "none");
    run.wait_until_ready();
    if (HasFatalFailure()) return;
    std::smatch group;
    const std::string err = run.err();
    const bool has_group =
        std::regex_search(err, group, std::regex("the ranks' control group is (/.*/hookline-run-[0-9]+)"));
    if (bounds == "group" && !has_group) GTEST_SKIP() << "this user is not allowed to make a control group";
    EXPECT_EQ(has_group, bounds == "group") << err;
    const std::vector<pid_t> pids = victims(run);
    for (const pid_t pid : pids) ASSERT_GT(pid, 0);
    // In every second run, all victims are stopped first, so none reacts before all are dead; otherwise they
    // die one after another, as with `kill -9 A B`.
    if (i % 2 == 1) {
      for (const pid_t pid : pids) kill(pid, SIGSTOP);
      for (const pid_t pid : pids) ASSERT_TRUE(eventually([&] { return testing::state_of(pid) == 'T'; }));
    }
    for (const pid_t pid : pids) kill(pid, SIGKILL);
    EXPECT_EQ(run.end().exit_code, 128 + SIGKILL);
    EXPECT_TRUE(!has_group || eventually([&] { return !std::filesystem::exists(group[1].str()); }))
        << group[1];
    if (HasFailure()) return;
  }
}

std::vector<Killed> pairs() {
  std::vector<Killed> all;
  for (const char* who : {"la", "al", "ls", "sl", "sa", "as"})
    for (const char* bounds : {"group", "none", "pid"}) all.push_back({who, bounds});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Faults, KilledAtOnce, ::testing::ValuesIn(pairs()), [](const auto& instance) {
  return instance.param.who + "_" + instance.param.bounds;
});

// The kernel continues the stopped sentinel when the launcher dies.
TEST(Faults, LeaveNothingWhenLauncherAndAgentAreKilledAtOnceAndTheSentinelIsStopped) {
  FaultyRun run({}, {}, {});
  run.wait_until_ready();
  if (HasFatalFailure()) return;
  const pid_t launcher = run.launcher(), sentinel = run.sentinel(), agent = run.agent();
  ASSERT_TRUE(sentinel > 0 && agent > 0);
  kill(sentinel, SIGSTOP);
  ASSERT_TRUE(eventually([&] { return testing::state_of(sentinel) == 'T'; }));
  kill(agent, SIGKILL);
  kill(launcher, SIGKILL);
  EXPECT_EQ(run.end().exit_code, 128 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return !is_running(sentinel); }));
}

}  // namespace
}  // namespace hookline
