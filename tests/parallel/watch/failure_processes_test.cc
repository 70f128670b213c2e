// Ranks are processes; one of them dies, is stopped or is cut off in the middle of a step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "support/free_port.h"
#include "support/hosts.h"
#include "support/process.h"

namespace hookline::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

/// Options for one rank of failing_rank without a launcher, which would stop it when another rank fails.
ProcessOptions rank_options(const std::string& mode, int failing, const std::string& hook, int rank,
                            int size) {
  ProcessOptions options;
  options.arguments = {mode, std::to_string(failing)};
  options.environment = {{"RANK", std::to_string(rank)},
                         {"WORLD_SIZE", std::to_string(size)},
                         {"LOCAL_RANK", std::to_string(rank)},
                         {"OMP_NUM_THREADS", "1"},
                         {"HOOKLINE_LAUNCH__PEER_TIMEOUT_SECONDS", "4"},
                         {"HOOKLINE_DDP__COMM_HOOK", hook},
                         {"HOOKLINE_CONFIG", std::nullopt}};
  if (hook == "power_sgd") options.environment["HOOKLINE_DDP__COMM_STATE_OPTION__START_POWERSGD_ITER"] = "2";
  return options;
}

/// Three ranks running failing_rank.
class Ranks {
 public:
  static constexpr int kSize = 3;

  Ranks(const std::string& mode, int failing, const std::string& hook,
        const std::map<std::string, std::string>& environment = {}) {
    const std::string port = std::to_string(free_port());
    for (int rank = 0; rank < kSize; ++rank) {
      ProcessOptions options = rank_options(mode, failing, hook, rank, kSize);
      options.environment["MASTER_ADDR"] = "127.0.0.1";
      options.environment["MASTER_PORT"] = port;
      for (const auto& [name, value] : environment) options.environment[name] = value;
      processes_.push_back(std::make_unique<Process>(FAILING_RANK_PROGRAM, options));
    }
  }
  Process& operator[](int rank) { return *processes_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<std::unique_ptr<Process>> processes_;
};

/// The error that a rank printed; checks that it took only seconds.
std::string failure_in(const ProcessResult& result) {
  std::smatch found;
  if (!std::regex_search(result.out, found, std::regex("failed after ([0-9.]+) s: (.*)"))) {
    return "no failure in: " + result.out + result.err;
  }
  EXPECT_LT(std::stod(found[1]), 30) << "a wait for Gloo's timeout takes 1,800 s";
  return found[2];
}

struct FailureCase {
  std::string mode;
  int failing;
  std::string hook;
};

void PrintTo(const FailureCase& c, std::ostream* out) {
  *out << c.mode << " of rank " << c.failing << ", " << c.hook;
}

class MidStep : public ::testing::TestWithParam<FailureCase> {};

TEST_P(MidStep, FailsEveryOtherRankWithinSecondsNamingTheOneThatIsGone) {
  const FailureCase& c = GetParam();
  Ranks ranks(c.mode, c.failing, c.hook);
  const std::string gone = std::to_string(c.failing);
  const std::string hook = c.hook == "no"          ? "without a hook"
                           : c.hook == "power_sgd" ? "of power_sgd\\(rank=1, start=2\\)"
                                                   : "of " + c.hook;
  for (int rank = 0; rank < Ranks::kSize; ++rank) {
    if (rank == c.failing) continue;
    const ProcessResult result = ranks[rank].wait();
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.exit_code, 3) << "rank " << rank << ": " << result.err;
    const std::string failure = failure_in(result);
    // Rank 0 serves the store, so its exit looks different.
    if (c.mode == "exit" && c.failing != 0) {
      EXPECT_THAT(failure, MatchesRegex("rank " + gone +
                                        " exited while rank [01] was waiting for it in step 3 " + hook));
      continue;
    }
    EXPECT_TRUE(
        std::regex_search(failure, std::regex("^rank " + gone + ".*(is gone|no heartbeat|has not answered)")))
        << failure;
    EXPECT_TRUE(std::regex_search(failure, std::regex("is waiting for it in step 3 " + hook))) << failure;
  }
  if (c.mode == "stop") ranks[c.failing].signal(SIGKILL);
  const ProcessResult failed = ranks[c.failing].wait();
  EXPECT_EQ(failed.exit_code, c.mode == "exit" ? 0 : 128 + SIGKILL) << failed.err;
}

std::vector<FailureCase> cases() {
  std::vector<FailureCase> all;
  for (const std::string mode : {"kill", "stop", "exit"}) {
    for (const int failing : {0, 2}) {
      for (const std::string hook : {"no", "power_sgd"}) all.push_back({mode, failing, hook});
    }
  }
  return all;
}

std::string name_of(const ::testing::TestParamInfo<FailureCase>& info) {
  return info.param.mode + "_of_rank_" + std::to_string(info.param.failing) + "_" + info.param.hook;
}

INSTANTIATE_TEST_SUITE_P(Ranks, MidStep, ::testing::ValuesIn(cases()), name_of);

TEST(ShardedOptimizer, FailsEveryOtherRankWithinSecondsWhereOneIsGoneBeforeTheGather) {
  for (const std::string signal : {"kill", "stop"}) {
    constexpr int kFailing = 1;
    Ranks ranks(signal + " in step", kFailing, "no", {{"HOOKLINE_DDP__SHARD_OPTIMIZER", "true"}});
    for (const int rank : {0, 2}) {
      const ProcessResult result = ranks[rank].wait();
      EXPECT_FALSE(result.timed_out);
      EXPECT_EQ(result.exit_code, 3) << "rank " << rank << ": " << result.err;
      EXPECT_TRUE(std::regex_search(
          failure_in(result),
          std::regex("^rank 1.*(is gone|no heartbeat|has not answered).*is waiting for it in step 3 of "
                     "a sharded optimizer: gathering the parameters")))
          << failure_in(result);
    }
    if (signal == "stop") ranks[kFailing].signal(SIGKILL);
    EXPECT_EQ(ranks[kFailing].wait().exit_code, 128 + SIGKILL);
  }
}

TEST(Joining, NamesTheRankThatDoesNotJoin) {
  const std::string port = std::to_string(free_port());
  std::vector<std::unique_ptr<Process>> ranks;
  for (const int rank : {0, 2}) {
    ProcessOptions options = rank_options("none", -1, "no", rank, 4);
    options.environment["MASTER_ADDR"] = "127.0.0.1";
    options.environment["MASTER_PORT"] = port;
    options.environment["HOOKLINE_LAUNCH__JOIN_TIMEOUT_SECONDS"] = rank == 0 ? "2" : "60";
    ranks.push_back(std::make_unique<Process>(FAILING_RANK_PROGRAM, options));
  }
  const ProcessResult first = ranks[0]->wait();
  EXPECT_EQ(first.exit_code, 3);
  EXPECT_THAT(
      first.err,
      MatchesRegex(".*ranks 1 and 3 did not join the run in the [0-9.]+ s that rank 0 waited for them: "
                   "see whether they failed, or take long to get to Accelerator::from_env \\(then set "
                   "\\[launch\\] join_timeout_seconds\\)\n"));
  const ProcessResult other = ranks[1]->wait();
  EXPECT_FALSE(other.timed_out);
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_THAT(other.err,
              HasSubstr("rank 0, which holds the store, is gone before all ranks have joined; rank 2 waited "
                        "for it ("));
}

TEST(MidStepRanks, RejoinInTheSameProcessesAfterOneThrew) {
  for (const int failing : {0, 1}) {
    Ranks ranks("throw", failing, "power_sgd");
    for (int rank = 0; rank < Ranks::kSize; ++rank) {
      const ProcessResult result = ranks[rank].wait();
      EXPECT_EQ(result.exit_code, 0) << "rank " << rank << ": " << result.out << result.err;
      EXPECT_THAT(result.out, HasSubstr("trained 10 steps to "));
      if (rank == failing) continue;
      EXPECT_THAT(failure_in(result),
                  MatchesRegex("rank " + std::to_string(failing) +
                               " left the run while rank [0-2] was waiting for it in .*"));
    }
  }
}

TEST(LoggedMetrics, SurviveACrash) {
  for (const char* mode : {"uncaught", "segv"}) {
    SCOPED_TRACE(mode);
    const TemporaryFolder folder;
    ProcessOptions options = rank_options(mode, 0, "no", 0, 1);
    options.environment["MASTER_ADDR"] = "127.0.0.1";
    options.environment["MASTER_PORT"] = std::to_string(free_port());
    options.environment["HOOKLINE_RUN_DIR"] = folder.path().string();
    const ProcessResult result = run_process(FAILING_RANK_PROGRAM, options);
    EXPECT_NE(result.exit_code, 0);
    const std::string lines = read_file(folder.path() / "metrics.jsonl");
    EXPECT_THAT(lines, HasSubstr("\"number\":2"));
    EXPECT_THAT(lines, ::testing::EndsWith("}\n")) << "whole lines";
  }
}

/// Runs failing_rank under the launcher.
ProcessResult launch(const TemporaryFolder& folder, const std::string& mode, int failing) {
  ProcessOptions options;
  options.arguments = {"launch", "--processes-per-node", "2", FAILING_RANK_PROGRAM,
                       mode,     std::to_string(failing)};
  options.folder = folder.path();
  options.environment = {
      {"HOOKLINE_CONFIG", std::nullopt}, {"HOOKLINE_RUN_DIR", std::nullopt}, {"OMP_NUM_THREADS", "1"}};
  return run_process(HOOKLINE_BINARY, options);
}

TEST(Launched, NamesARankThatExitedWithZeroAsWhatOthersWaitedFor) {
  for (const int leaving : {1, 0}) {
    const TemporaryFolder folder;
    const std::string other = std::to_string(1 - leaving), gone = std::to_string(leaving);
    const ProcessResult result = launch(folder, "exit", leaving);
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err, HasSubstr("hookline: error: rank " + other + " exited with code 3, after rank " +
                                      gone + " had exited with code 0 at step 3, while others "));
    if (leaving == 1) {
      EXPECT_THAT(result.err,
                  HasSubstr("    rank 1 exited while rank 0 was waiting for it in step 3 without a hook\n"));
    }
  }
}

TEST(Launched, ASignalIsReportedWithItsStackAndAnExceptionWithoutOne) {
  const TemporaryFolder folder;
  const ProcessResult crashed = launch(folder, "segv", 1);
  EXPECT_EQ(crashed.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(crashed.err,
              HasSubstr("\n  its error at step 3:\n    SIGSEGV: the program sent it to itself\n"));
  EXPECT_THAT(crashed.err, ::testing::ContainsRegex("\n      frame #[0-9]+: [^\n]*train[<(]"));
  const ProcessResult threw = launch(folder, "uncaught", 1);
  EXPECT_EQ(threw.exit_code, 128 + SIGABRT);
  EXPECT_THAT(
      threw.err,
      HasSubstr("\n  its error at step 3:\n    an exception that is not a std::exception\n  the end of its"));
  EXPECT_THAT(threw.err, ::testing::Not(HasSubstr("frame #")));
}

TEST(MidStepHosts, FailBothWithinSecondsWhenTheirLinkIsCut) {
  const Hosts hosts(2);
  if (!hosts.ok()) GTEST_SKIP() << "network namespaces can't be made here: run as root, with ip";
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ProcessOptions options = rank_options("pace", -1, "power_sgd", rank, 2);
    options.environment["MASTER_ADDR"] = Hosts::address(0);
    options.environment["MASTER_PORT"] = "29400";
    ranks.push_back(hosts.start(rank, FAILING_RANK_PROGRAM, options));
  }
  for (const auto& rank : ranks) ASSERT_TRUE(rank->wait_for("in step 3")) << rank->out() << rank->err();
  hosts.cut(1);
  for (int rank = 0; rank < 2; ++rank) {
    const ProcessResult result = ranks[static_cast<std::size_t>(rank)]->wait();
    EXPECT_EQ(result.exit_code, 3) << result.err;
    EXPECT_THAT(
        failure_in(result),
        MatchesRegex(
            "rank " + std::to_string(1 - rank) +
            "(, which holds the store, has not answered for .*, so it is stopped or cut off; rank 1 is "
            "waiting for it| has sent no heartbeat for .*; rank 0 is waiting for it) in step [0-9]+ of "
            "power_sgd\\(rank=1, start=2\\)"));
  }
}

}  // namespace
}  // namespace hookline::testing
