#include "launcher/supervise/rank_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <optional>
#include <string>

#include "launcher/containment/run_bounds.h"
#include "launcher/process/outcome.h"
#include "support/process.h"

namespace hookline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ChildSpec shell_rank(const std::string& script) {
  ChildSpec child;
  child.program = "/bin/sh";
  child.arguments = {"sh", "-c", script};
  child.environment = {"PATH=/usr/bin:/bin"};
  return child;
}

/// Waits until the process has exited, without reaping it.
void wait_until_ended(pid_t process) {
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT), 0);
}

EndedChild wait_for_next(RankProcesses& ranks) {
  std::optional<EndedChild> child;
  EXPECT_TRUE(testing::eventually([&] { return (child = ranks.next_ended()).has_value(); }));
  return child.value_or(EndedChild{});
}

TEST(RankProcesses, ReportsRanksInTheOrderTheyExited) {
  const RunBounds bounds;
  RankProcesses ranks(bounds);
  ranks.start(shell_rank("sleep 0.2; exit 3"));
  ranks.start(shell_rank("exit 4"));
  EXPECT_THAT(ranks.alive(), ElementsAre(0, 1));
  wait_until_ended(ranks.process_of(0));
  wait_until_ended(ranks.process_of(1));
  const auto first = ranks.next_ended(), second = ranks.next_ended();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->rank, 1);
  EXPECT_EQ(outcome_of(first->wait_status), Outcome(Exited{4}));
  EXPECT_EQ(second->rank, 0);
  EXPECT_EQ(outcome_of(second->wait_status), Outcome(Exited{3}));
  EXPECT_FALSE(ranks.next_ended());
  EXPECT_THAT(ranks.alive(), IsEmpty());
  EXPECT_FALSE(ranks.any_left());
}

TEST(RankProcesses, SignalsWhatARankLeftBehindInItsGroup) {
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0,
        0);  // like the agent: processes that ranks leave become its children
  const RunBounds bounds;
  RankProcesses ranks(bounds);
  ranks.start(shell_rank("sleep 60 & exit 0"));
  EXPECT_EQ(wait_for_next(ranks).rank, 0);
  EXPECT_TRUE(ranks.any_left());
  ranks.signal_groups(SIGKILL);
  EXPECT_TRUE(testing::eventually([&] { return !ranks.any_left(); }));
  prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

TEST(RankProcesses, NamesTheRanksThatAreStopped) {
  const RunBounds bounds;
  RankProcesses ranks(bounds);
  ranks.start(shell_rank("exec sleep 60"));
  ranks.start(shell_rank("kill -STOP $$; exit 0"));
  EXPECT_TRUE(testing::eventually([&] { return !ranks.stopped().empty(); }));
  EXPECT_THAT(ranks.stopped(), ElementsAre(1));
  ranks.signal_all(SIGKILL);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(outcome_of(wait_for_next(ranks).wait_status), Outcome(Signalled{9}));
  EXPECT_THAT(ranks.stopped(), IsEmpty());
}

}  // namespace
}  // namespace hookline
