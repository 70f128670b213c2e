// Preemption during a training loop: the resumed run must equal an uninterrupted one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include "parallel/resume/preemption.h"
#include "tests/parallel/training/training_program.h"

namespace hookline {
namespace {

using namespace testing;

/// Names the variable through which a death test's child, which reruns the test, finds its parent's folder.
constexpr const char* kFolder = "HOOKLINE_PREEMPTED_RUN";

/// Trains two epochs of four steps, measuring on the training samples after each, and gets SIGUSR1 before
/// step `at`.
Loop warned_before_step(std::int64_t at) {
  return [at](Program& program) {
    Loader training = program.rows(8);
    for (auto epoch = training.epoch(); epoch < 2; ++epoch) {
      for (auto& batch : training) {
        if (at > 0) {
          // Ranks check for the signal every 0.3 s, so with steps this slow they check in each one.
          std::this_thread::sleep_for(std::chrono::milliseconds(350));
          if (program.accelerator.steps_done() == at - 1) std::raise(SIGUSR1);
        }
        program.step(batch);
      }
      at::Tensor sum = torch::zeros({});
      {
        const torch::NoGradGuard no_grad;
        for (auto& batch : training) sum += program.loss(batch.data, batch.target);
      }
      program.rate *= 0.9 - 0.01 * sum.item<double>();
      program.use_rate();
    }
    program.accelerator.end_training();
  };
}

class TrainingPreemptionDeathTest : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(TrainingPreemptionDeathTest, KeepsTheMeasurementAfterAnEpoch) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  std::optional<TemporaryFolder> scratch;  // none in the child, which ends without removing folders
  if (!std::getenv(kFolder)) ::setenv(kFolder, scratch.emplace().path().c_str(), /*overwrite=*/0);
  const RunConfig config = saving_in(std::getenv(kFolder), 1000);
  EXPECT_EXIT(run(config, warned_before_step(GetParam())), ::testing::ExitedWithCode(kSavedForLater),
              "stopping at step " + std::to_string(GetParam()) + ", because of SIGUSR1");
  ::unsetenv(kFolder);
  const End whole = run({}, warned_before_step(0));
  ASSERT_EQ(whole.steps, 8);
  expect_same(run(config, warned_before_step(0)), whole);
}
INSTANTIATE_TEST_SUITE_P(BeforeInAndAfterTheLastStep, TrainingPreemptionDeathTest,
                         ::testing::Values(3, 4, 5));

}  // namespace
}  // namespace hookline
