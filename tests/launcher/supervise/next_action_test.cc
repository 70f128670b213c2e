#include "launcher/supervise/next_action.h"

#include <gtest/gtest.h>

#include <csignal>
#include <vector>

namespace hookline {
namespace {

RunState state_of(int ranks) {
  RunState state;
  state.ranks_alive = ranks;
  return state;
}

struct Told {
  RunState state;
  std::vector<Action> actions;
};

Told tell(RunState state, const std::vector<Event>& events) {
  Told told{state, {}};
  for (const Event& event : events) {
    const Decision decision = decide(told.state, event);
    told.state = decision.state;
    told.actions.push_back(decision.action);
  }
  return told;
}

TEST(Decide, ExitsWithZeroWhenEveryRankSucceeds) {
  const Told told = tell(state_of(2), {RankEnded{1, Exited{0}}, RankEnded{0, Exited{0}}});
  EXPECT_EQ(told.actions, (std::vector<Action>{Nothing{}, Nothing{}}));
  EXPECT_TRUE(told.state.ended());
  EXPECT_FALSE(told.state.root_cause || told.state.stopped_by);
}

TEST(Decide, StopsTheOthersWhenARankFails) {
  const Told told = tell(state_of(3), {RankEnded{2, Exited{7}}});
  EXPECT_EQ(told.actions, (std::vector<Action>{Stop{SIGTERM}}));
  EXPECT_FALSE(told.state.ended());
}

TEST(Decide, BlamesTheRankThatFailedFirst) {
  const Told told =
      tell(state_of(3), {RankEnded{1, Signalled{SIGSEGV}}, RankEnded{0, Exited{1}}, RankEnded{2, Exited{0}}});
  ASSERT_TRUE(told.state.root_cause);
  EXPECT_EQ(told.state.root_cause->rank, 1);
  EXPECT_EQ(exit_code(told.state.root_cause->outcome), 128 + SIGSEGV);
}

TEST(Decide, DoesNotBlameARankThatSucceededEarly) {
  const Told told = tell(state_of(2), {RankEnded{0, Exited{0}}, RankEnded{1, Exited{3}}});
  ASSERT_TRUE(told.state.root_cause);
  EXPECT_EQ(told.state.root_cause->rank, 1);
  EXPECT_EQ(exit_code(told.state.root_cause->outcome), 3);
}

TEST(Decide, KillsWhatIsLeftWhenTheGracePeriodIsOver) {
  const Told told =
      tell(state_of(2), {RankEnded{0, Exited{1}}, GraceOver{}, RankEnded{1, Signalled{SIGKILL}}});
  EXPECT_EQ(told.actions, (std::vector<Action>{Stop{SIGTERM}, Kill{}, Nothing{}}));
  EXPECT_EQ(exit_code(told.state.root_cause->outcome), 1);
}

TEST(Decide, ForwardsASignalAndTakesItsCode) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    const Told told =
        tell(state_of(2), {SignalReceived{signal}, RankEnded{0, Signalled{signal}}, RankEnded{1, Exited{0}}});
    EXPECT_EQ(told.actions, (std::vector<Action>{Stop{signal}, Nothing{}, Nothing{}}));
    EXPECT_FALSE(told.state.root_cause);
    EXPECT_EQ(told.state.stopped_by, signal);
  }
}

TEST(Decide, ForwardsSchedulerSignalsToTheRanks) {
  for (int signal : {SIGUSR1, SIGUSR2}) {
    const Told told = tell(state_of(1), {SignalReceived{signal}, RankEnded{0, Exited{0}}});
    EXPECT_EQ(told.actions, (std::vector<Action>{Forward{signal}, Nothing{}}));
    EXPECT_FALSE(told.state.root_cause || told.state.stopped_by);
    EXPECT_EQ(told.state.warned, signal == SIGUSR1);
  }
}

TEST(Decide, KillsWhenTheLauncherWasKilled) {
  const Told told =
      tell(state_of(1), {SignalReceived{SIGTERM}, SignalReceived{SIGKILL}, RankEnded{0, Signalled{SIGKILL}}});
  EXPECT_EQ(told.actions, (std::vector<Action>{Stop{SIGTERM}, Kill{}, Nothing{}}));
  EXPECT_FALSE(told.state.root_cause);
}

TEST(Decide, KillsOnTheSecondInterrupt) {
  const Told told =
      tell(state_of(2), {SignalReceived{SIGINT}, SignalReceived{SIGINT}, SignalReceived{SIGINT}});
  EXPECT_EQ(told.actions, (std::vector<Action>{Stop{SIGINT}, Kill{}, Nothing{}}));
}

TEST(Decide, KeepsTheGracePeriodWhenSigtermRepeats) {
  const Told told =
      tell(state_of(2), {SignalReceived{SIGTERM}, SignalReceived{SIGTERM}, SignalReceived{SIGHUP}});
  EXPECT_EQ(told.actions, (std::vector<Action>{Stop{SIGTERM}, Nothing{}, Nothing{}}));
}

TEST(Decide, KeepsTheFailureWhenAnInterruptFollows) {
  const Told told =
      tell(state_of(2), {RankEnded{0, Exited{9}}, SignalReceived{SIGINT}, RankEnded{1, Signalled{SIGKILL}}});
  EXPECT_EQ(told.actions, (std::vector<Action>{Stop{SIGTERM}, Kill{}, Nothing{}}));
  EXPECT_EQ(exit_code(told.state.root_cause->outcome), 9);
}

TEST(Decide, StopsWhatTheRanksLeftBehind) {
  const Told told =
      tell(state_of(1), {RankEnded{0, Exited{0}}, ProcessesLeft{}, ProcessesLeft{}, GraceOver{}});
  EXPECT_EQ(told.actions, (std::vector<Action>{Nothing{}, Stop{SIGTERM}, Nothing{}, Kill{}}));
  EXPECT_FALSE(told.state.root_cause || told.state.stopped_by);
}

TEST(Decide, SendsSigtermToLeftoversThatIgnoreAnInterrupt) {
  const Told told = tell(state_of(1), {SignalReceived{SIGINT}, RankEnded{0, Signalled{SIGINT}},
                                       ProcessesLeft{}, ProcessesLeft{}, GraceOver{}});
  EXPECT_EQ(told.actions, (std::vector<Action>{Stop{SIGINT}, Nothing{}, Stop{SIGTERM}, Nothing{}, Kill{}}));
  EXPECT_EQ(told.state.stopped_by, SIGINT);
}

TEST(Decide, StopsTheRunForAStuckRank) {
  const Told told =
      tell(state_of(2), {RankStuck{1, 60}, RankEnded{1, Signalled{SIGTERM}}, RankEnded{0, Exited{1}}});
  EXPECT_EQ(told.actions, (std::vector<Action>{Stop{SIGTERM}, Nothing{}, Nothing{}}));
  ASSERT_TRUE(told.state.root_cause);
  EXPECT_EQ(told.state.root_cause->outcome, Outcome(Stuck{60}));
  EXPECT_EQ(exit_code(told.state.root_cause->outcome), 124);
}

TEST(Outcome, MapsToExitCodesAsAShellDoes) {
  EXPECT_EQ(exit_code(Outcome(Exited{3})), 3);
  EXPECT_EQ(exit_code(Outcome(Signalled{SIGKILL})), 137);
  EXPECT_EQ(describe(Outcome(Exited{3})), "exited with code 3");
  EXPECT_EQ(describe(Outcome(Signalled{SIGSEGV})), "was killed by SIGSEGV (signal 11)");
  EXPECT_EQ(signal_name(SIGRTMIN + 3), "SIGRTMIN+3");
}

}  // namespace
}  // namespace hookline
