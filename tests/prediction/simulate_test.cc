// Simulates a step; all times in these tests are seconds that can be added by hand.

#include "prediction/simulate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"
#include "tests/support/failure.h"

namespace hookline {
namespace {

constexpr double kClose = 1e-9;

/// An all-reduce without latency that takes a second per byte, `busy` of it on a core.
CollectiveTimes second_a_byte(double busy = 0) { return CollectiveTimes({{0, 0, 0}, {1, 1, busy}}); }

Machine machine_of(const CollectiveTimes& times, double cores = 2) { return {cores, times, times}; }

Send send(double bytes, double busy_before = 0, int after = -1) { return {after, busy_before, bytes}; }

BucketPlan bucket(double ready, double bytes) { return {ready, {{send(bytes)}, 0}}; }

TEST(Simulate, AddsUpAStepWithoutCommunication) {
  StepPlan plan;
  plan.before_backward = 3, plan.backward = 5, plan.after_backward = 2;
  const Predicted predicted = simulate(plan, machine_of({}));
  EXPECT_NEAR(predicted.seconds, 10, kClose);
  EXPECT_NEAR(predicted.exposed_seconds, 0, kClose);
}

TEST(Simulate, HidesWhatIsSentDuringBackward) {
  StepPlan plan;
  plan.before_backward = 3, plan.backward = 5, plan.after_backward = 2;
  plan.buckets = {bucket(1, 4), bucket(5, 2)};
  const Predicted predicted = simulate(plan, machine_of(second_a_byte()));
  EXPECT_NEAR(predicted.seconds, 12, kClose);  // the first is sent from 1 to 5, the second from 5 to 7
  EXPECT_NEAR(predicted.exposed_seconds, 2, kClose);
}

TEST(Simulate, SendsOneAfterAnother) {
  StepPlan plan;
  plan.backward = 5;
  plan.buckets = {bucket(1, 10), bucket(5, 2)};
  EXPECT_NEAR(simulate(plan, machine_of(second_a_byte())).seconds, 13, kClose);
}

TEST(Simulate, KeepsTheOrderOfBuckets) {
  StepPlan plan;
  plan.backward = 5;
  plan.buckets = {bucket(4, 1), bucket(2, 1)};  // the second waits for the first
  EXPECT_NEAR(simulate(plan, machine_of(second_a_byte())).seconds, 6, kClose);
}

TEST(Simulate, OverlapsLatencies) {
  StepPlan plan;
  plan.buckets = {bucket(0, 1), bucket(0, 1), bucket(0, 1)};
  const CollectiveTimes times({{0, 10, 0}, {1, 11, 0}});  // one second on the link, ten more until it arrives
  EXPECT_NEAR(simulate(plan, machine_of(times)).seconds, 13, kClose);
}

TEST(Simulate, DelaysBackwardByTheHooksFirstComputation) {
  StepPlan plan;
  plan.backward = 5;
  plan.buckets = {{1, {{send(1, 2)}, 0}}};
  const Predicted predicted = simulate(plan, machine_of(second_a_byte()));
  EXPECT_NEAR(predicted.seconds, 7, kClose);  // hidden: sent from 3 to 4
  EXPECT_NEAR(predicted.exposed_seconds, 0, kClose);
}

/// Sends a byte at time 1, then computes for 2, sends another byte, and computes for 1.
BucketPlan two_stages() {
  Send second = send(1, 2, 0);
  second.busy_after = 1;
  return {1, {{send(1), second}, 0}};
}

TEST(Simulate, ComputesBesideBackwardOnAnotherCore) {
  StepPlan plan;
  plan.backward = 6;
  plan.buckets = {two_stages()};  // sends 1-2, computes 2-4, sends 4-5, computes 5-6
  EXPECT_NEAR(simulate(plan, machine_of(second_a_byte(), 2)).seconds, 6, kClose);
}

TEST(Simulate, SharesASingleCore) {
  StepPlan plan;
  plan.backward = 6;
  plan.buckets = {two_stages()};
  // 9 seconds of core time; the link hides none of it, since the core always has other work.
  EXPECT_NEAR(simulate(plan, machine_of(second_a_byte(), 1)).seconds, 9, kClose);
}

TEST(Simulate, ChargesTheCopiesOfACollectiveToBackward) {
  StepPlan plan;
  plan.backward = 6;
  plan.buckets = {bucket(0, 2)};
  EXPECT_NEAR(simulate(plan, machine_of(second_a_byte(/*busy=*/1), 1)).seconds, 8, kClose);
  EXPECT_NEAR(simulate(plan, machine_of(second_a_byte(/*busy=*/1), 2)).seconds, 6, kClose);
  EXPECT_NEAR(simulate(plan, machine_of(second_a_byte(/*busy=*/0), 1)).seconds, 6, kClose);
}

TEST(Simulate, UsesHalfPrecisionTimesForHalfPrecisionSends) {
  StepPlan plan;
  Send half = send(3);
  half.is_half = true;
  plan.buckets = {{0, {{half}, 0}}};
  const Machine machine{1, second_a_byte(), CollectiveTimes({{0, 0, 0}, {1, 2, 0}})};
  EXPECT_NEAR(simulate(plan, machine).seconds, 6, kClose);
}

// As half precision does: casts piece by piece, and casts each back when it arrives.
TEST(Simulate, SendsPiecesWhileTheNextAreComputed) {
  StepPlan plan;
  Send piece = send(2, 1);
  piece.busy_after = 1;
  plan.buckets = {
      {0, {{piece, piece, piece}, 0}}};  // cast at 1, 2, 3; on the link 1-3, 3-5, 5-7; cast back by 8
  const Predicted predicted = simulate(plan, machine_of(second_a_byte()));
  EXPECT_NEAR(predicted.seconds, 8, kClose);
  EXPECT_NEAR(predicted.exposed_seconds, 5, kClose);
}

TEST(Simulate, FinishesABucketThatSendsNothing) {
  StepPlan plan;
  plan.backward = 2;
  plan.buckets = {{1, {{}, 0.5}}};
  EXPECT_NEAR(simulate(plan, machine_of(second_a_byte())).seconds, 2.5, kClose);
}

// For example an average within a host: the next send need not wait for the network.
TEST(Simulate, DoesNotWaitForTheLinkAfterAnEmptySend) {
  StepPlan plan;
  plan.backward = 5;
  plan.buckets = {bucket(1, 10), {2, {{send(0), send(1, 0.5, 0)}, 0}}};
  EXPECT_NEAR(simulate(plan, machine_of(second_a_byte())).seconds, 12, kClose);
  plan.buckets.erase(plan.buckets.begin());
  EXPECT_NEAR(simulate(plan, machine_of(CollectiveTimes({{1, 3, 0}}))).seconds, 5.5, kClose)
      << "no latency either";
}

TEST(Simulate, RefusesASendThatWaitsForItself) {
  StepPlan plan;
  plan.buckets = {{0, {{send(1), send(1, 0, 1)}, 0}}};
  EXPECT_EQ(testing::failure_of<Error>([&] { simulate(plan, machine_of({})); }),
            "send 1 of bucket 0 follows send 1: it can only follow an earlier one");
}

TEST(Simulate, RefusesInvalidTimes) {
  StepPlan plan;
  plan.buckets = {bucket(1, 1)};
  plan.backward = std::nan("");
  const std::string one = "a step can't be simulated: one of its times is ";
  EXPECT_EQ(testing::failure_of<Error>([&] { simulate(plan, machine_of({})); }), one + "nan s");
  plan.backward = -0.001;
  EXPECT_EQ(testing::failure_of<Error>([&] { simulate(plan, machine_of({})); }), one + "-1 ms");
  plan.backward = 2;
  const CollectiveTimes endless({{0, 0, 0}, {1, std::numeric_limits<double>::infinity(), 0}});
  EXPECT_EQ(testing::failure_of<Error>([&] { simulate(plan, machine_of(endless)); }), one + "inf s");
}

// "Choosing takes milliseconds": 200 settings of a model with 100 buckets.
TEST(Simulate, IsDoneInMilliseconds) {
  StepPlan plan;
  plan.backward = 1;
  for (int i = 0; i < 100; ++i)
    plan.buckets.push_back({i * 0.01, {{send(1e-3, 1e-4), send(1e-3, 1e-4, 0)}, 1e-4}});
  const Machine machine = machine_of(CollectiveTimes({{0, 1e-4, 1e-5}, {1, 10, 1}}), 1);
  const auto start = std::chrono::steady_clock::now();
  double sum = 0;
  for (int i = 0; i < 200; ++i) sum += simulate(plan, machine).seconds;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_GT(sum, 200);
  EXPECT_LT(took.count(), 5) << "typically 10 ms, but longer in a debug build on a busy machine";
}

}  // namespace
}  // namespace hookline
