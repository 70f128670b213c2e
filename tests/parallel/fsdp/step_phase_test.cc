// Tracks where a sharded model is within a step; tested without a model.
#include "parallel/fsdp/step_phase.h"

#include <gtest/gtest.h>

namespace hookline {
namespace {

TEST(StepPhase, HoldsWholeUnitsUntilTheBackwardEnds) {
  StepPhase phase;
  EXPECT_FALSE(phase.has_wholes());
  EXPECT_FALSE(phase.begin_forward()) << "no backward ran before";
  EXPECT_TRUE(phase.has_wholes());
  EXPECT_FALSE(phase.is_in_backward());
  const auto backward = phase.begin_backward(7);
  EXPECT_TRUE(phase.has_wholes());
  EXPECT_TRUE(phase.is_in_backward());
  phase.end_backward();
  EXPECT_FALSE(phase.has_wholes());
}

TEST(StepPhase, SettlesAfterAForwardButNotDuringABackward) {
  StepPhase phase;
  phase.begin_forward();
  EXPECT_TRUE(phase.settle());
  EXPECT_FALSE(phase.has_wholes());
  phase.begin_forward();
  const auto backward = phase.begin_backward(7);
  EXPECT_FALSE(phase.settle());
  EXPECT_TRUE(phase.is_in_backward());
}

TEST(StepPhase, ForgetsAForwardAtTheNextOneAfterItsBackwards) {
  StepPhase phase;
  phase.begin_forward();
  EXPECT_FALSE(phase.begin_forward()) << "the graphs of both may be used";
  for (int i = 0; i < 2; ++i) {
    phase.begin_backward(i);
    phase.end_backward();
  }
  EXPECT_TRUE(phase.settle());
  EXPECT_TRUE(phase.begin_forward());
  EXPECT_FALSE(phase.begin_forward()) << "once";
}

TEST(StepPhase, StaysInABackwardThatRunsAForward) {
  StepPhase phase;
  const auto backward = phase.begin_backward(7);
  phase.begin_forward();
  EXPECT_TRUE(phase.is_in_backward());
  phase.end_backward();
  EXPECT_FALSE(phase.has_wholes());
}

TEST(StepPhase, DetectsABackwardThatThrewByItsGuard) {
  StepPhase phase;
  auto backward = phase.begin_backward(7);
  EXPECT_FALSE(phase.backward_has_thrown());
  backward.reset();
  EXPECT_TRUE(phase.backward_has_thrown());
  EXPECT_TRUE(phase.is_in_backward()) << "until it is forgotten";
  phase.end_backward();
  EXPECT_FALSE(phase.backward_has_thrown());
}

TEST(StepPhase, RecognizesANestedBackwardByItsTask) {
  StepPhase phase;
  EXPECT_FALSE(phase.is_inner_backward(7));
  const auto backward = phase.begin_backward(7);
  EXPECT_FALSE(phase.is_inner_backward(7));
  EXPECT_TRUE(phase.is_inner_backward(8));
}

}  // namespace
}  // namespace hookline
