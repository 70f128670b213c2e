#include "launcher/supervise/restart_decision.h"

#include <gtest/gtest.h>

#include <csignal>

namespace hookline {
namespace {

AttemptEnd failed(const Outcome& outcome, std::optional<std::int64_t> step = {}) {
  AttemptEnd end;
  end.state.root_cause = RootCause{1, outcome};
  end.step = step;
  return end;
}

RestartPolicy up_to(std::int64_t restarts) {
  RestartPolicy policy;
  policy.max_restarts = restarts;
  return policy;
}

NextAttempt after(double delay) { return RestartAfter{std::chrono::duration<double>(delay)}; }

TEST(NextAttempt, IsNoneAfterARunThatSucceededOrWasStopped) {
  EXPECT_EQ(next_attempt(up_to(3), {AttemptEnd{}}), NextAttempt(Finished{}));
  AttemptEnd stopped;
  stopped.state.stopped_by = SIGTERM;
  EXPECT_EQ(next_attempt(up_to(3), {stopped}), NextAttempt(Finished{}));
}

TEST(NextAttempt, IsMadeAsOftenAsAllowedWithGrowingDelays) {
  EXPECT_EQ(next_attempt(up_to(0), {failed(Exited{1})}), NextAttempt(GiveUp{}));
  std::vector<AttemptEnd> ends{failed(Exited{1})};
  for (const double delay : {1., 2., 4.}) {
    EXPECT_EQ(next_attempt(up_to(3), ends), after(delay));
    ends.push_back(failed(Signalled{SIGSEGV}));
  }
  EXPECT_EQ(next_attempt(up_to(3), ends),
            NextAttempt(GiveUp{"the ranks were restarted 3 times, as often as max_restarts allows"}));
  EXPECT_EQ(next_attempt(up_to(1), {ends[0], ends[1]}),
            NextAttempt(GiveUp{"the ranks were restarted once, as often as max_restarts allows"}));
}

TEST(NextAttempt, IsNotMadeAfterRanksSavedForLater) {
  RestartPolicy always = up_to(3);
  always.always = true;
  EXPECT_EQ(next_attempt(always, {failed(Exited{75})}), after(1))
      << "it may mean anything if they keep no checkpoints";
  always.keeps_checkpoints = true;
  EXPECT_EQ(next_attempt(always, {failed(Exited{75})}), NextAttempt(GiveUp{}));
}

TEST(NextAttempt, IsLeftForLaterOnPreemptionWithCheckpoints) {
  AttemptEnd warned = failed(Exited{1});
  warned.state.warned = true;
  EXPECT_EQ(next_attempt(up_to(1), {warned}), after(1)) << "they keep none, and take the signal as they like";
  RestartPolicy policy = up_to(1);
  policy.keeps_checkpoints = true;
  EXPECT_EQ(next_attempt(policy, {warned}), NextAttempt(EndForLater{}));
  EXPECT_EQ(next_attempt(policy, {failed(Exited{1})}), after(1));
  warned.state.root_cause->outcome = Exited{2};
  EXPECT_TRUE(std::holds_alternative<GiveUp>(next_attempt(policy, {warned})))
      << "another launch would fail as well";
}

TEST(NextAttempt, IsDelayedByAMinuteAtMostUnlessConfigured) {
  const std::vector<AttemptEnd> ends(20, failed(Exited{1}));
  EXPECT_EQ(next_attempt(up_to(100), ends), after(60));
  RestartPolicy slow = up_to(100);
  slow.delay = std::chrono::seconds(90);
  EXPECT_EQ(next_attempt(slow, ends), after(90));
  slow.delay = std::chrono::seconds(0);
  EXPECT_EQ(next_attempt(slow, ends), after(0));
}

TEST(NextAttempt, IsNotSpentOnBadInput) {
  EXPECT_EQ(
      next_attempt(up_to(3), {failed(Exited{2})}),
      NextAttempt(GiveUp{"exit code 2 means bad input, which a restart does not cure (restart = \"always\" "
                         "tries)"}));
  RestartPolicy always = up_to(3);
  always.always = true;
  EXPECT_EQ(next_attempt(always, {failed(Exited{2})}), after(1));
}

TEST(NextAttempt, IsNotSpentOnTheSameFailureAtTheSameStep) {
  const NextAttempt given_up =
      GiveUp{"the previous attempt failed in the same way at step 12 (restart = \"always\" tries again)"};
  EXPECT_EQ(next_attempt(up_to(3), {failed(Exited{1}, 12), failed(Exited{1}, 12)}), given_up);
  EXPECT_EQ(next_attempt(up_to(3), {failed(Exited{1}, 12), failed(Exited{1}, 13)}), after(2));
  EXPECT_EQ(next_attempt(up_to(3), {failed(Exited{1}, 12), failed(Signalled{SIGKILL}, 12)}), after(2));
  EXPECT_EQ(next_attempt(up_to(3), {failed(Exited{1}), failed(Exited{1})}), after(2)) << "steps are unknown";
  RestartPolicy always = up_to(3);
  always.always = true;
  EXPECT_EQ(next_attempt(always, {failed(Exited{1}, 12), failed(Exited{1}, 12)}), after(2));
}

}  // namespace
}  // namespace hookline
