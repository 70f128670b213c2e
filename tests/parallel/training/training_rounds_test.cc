// Training loops with several optimizers (GANs, critics, architecture search): each resumes bit for bit, or
// the run warns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <string>

#include "tests/parallel/training/training_program.h"

namespace hookline {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TrainingRounds, ResumeExactlyWithTwoOptimizersOnOwnDataInEitherOrder) {
  for (const int critics : {1, 3})
    expect_it_resumes(
        [critics](Program& program) {
          Critic critic(program);
          for (auto round = program.accelerator.steps_done() / (critics + 1); round < 4; ++round) {
            for (int i = 0; i < critics; ++i)
              critic.step(torch::full({2, 4}, 0.1 * static_cast<double>(round)));
            program.step(0.1 * static_cast<double>(round));
          }
          program.accelerator.end_training();
        },
        4 * (critics + 1), {4, 5});
}

TEST(TrainingRounds, WarnOfACheckpointBetweenTheStepsOfTwoOptimizers) {
  const Loop loop = [](Program& program) {
    Critic critic(program);
    for (auto round = program.accelerator.steps_done() / 7; round < 4; ++round) {
      for (int i = 0; i < 6; ++i) critic.step(torch::ones({2, 4}));
      program.step(1.0);
    }
  };
  EXPECT_THAT(
      messages_of(loop, 2),
      HasSubstr(
          "hookline: warning: the checkpoint of step 6 was saved between the steps of two optimizers: a "
          "run that resumes from it begins with the first optimizer's step; save less often, with a larger "
          "checkpoint_every_steps\n"));
}

TEST(TrainingRounds, KeepGradientsAccumulatedForASecondModel) {
  expect_it_resumes(
      [](Program& program) {
        Critic critic(program);
        int batches = 0;
        program.accelerator.register_for_checkpointing("batches", batches);
        Loader training = program.rows(16);
        for (auto epoch = training.epoch(); epoch < 2; ++epoch)
          for (auto& batch : training) {
            ++batches;
            program.step(batch);
            program.accelerator.backward((critic.model->forward(batch.data) - 1).pow(2).mean());
            if (batches % 4 != 0) continue;
            critic.optimizer.step();
            critic.optimizer.zero_grad();
          }
        program.accelerator.end_training();
      },
      20);
}

/// `critics` steps of the critic, each with its own batch, then one step of the generator.
Loop draws_batches(int critics, std::int64_t rounds, bool registers) {
  return [=](Program& program) {
    Critic critic(program);
    std::int64_t batches = 0;
    if (registers) program.accelerator.register_for_checkpointing("batches", batches);
    Loader training = program.rows(16);
    std::optional<Loader::Iterator> it;
    const auto next = [&] {
      if (it) ++*it;
      if (!it || *it == training.end()) it = training.begin();
      return **it;
    };
    for (auto round = program.accelerator.steps_done() / (critics + 1); round < rounds; ++round) {
      for (int i = 0; i < critics; ++i) {
        ++batches;
        critic.step(next().data);
      }
      program.step(1.0);
    }
    program.accelerator.end_training();
  };
}

TEST(TrainingRounds, ResumeExactlyIfACriticDrawsSeveralBatchesPerStep) {
  expect_it_resumes(draws_batches(3, 3, /*registers=*/false), 12, {3, 5});
}

TEST(TrainingRounds, WarnOfACheckpointBetweenTwoOptimizersBeforeTheNextBatch) {
  EXPECT_THAT(
      messages_of(draws_batches(6, 4, /*registers=*/false), 2),
      HasSubstr(
          "was saved between the steps of two optimizers, before the next batch: if the program "
          "decides by a count of its own which optimizer is next, a run that resumes from it counts from 0 "
          "again; register the count with register_for_checkpointing(), or save less often, with a "
          "larger "
          "checkpoint_every_steps\n"));
  EXPECT_THAT(messages_of(draws_batches(6, 4, /*registers=*/true), 2), Not(HasSubstr("between the steps")));
}

TEST(TrainingRounds, ResumeExactlyIfTheGeneratorStepsOnEveryThirdBatch) {
  expect_it_resumes(
      [](Program& program) {
        Critic critic(program);
        Loader training = program.rows(12);
        for (auto epoch = training.epoch(); epoch < 2; ++epoch) {
          int batches = 0;
          for (auto& batch : training) {
            critic.step(batch.data);
            if (++batches % 3 == 0) program.step(batch);
          }
        }
        program.accelerator.end_training();
      },
      16, {3, 5});
}

/// Before each step of the program, a step of the critic with its own batch. `ahead`: it loads the critic's
/// next batch before the program's step.
Loop searches_architectures(std::size_t samples, std::size_t own_samples, bool is_first, bool asks,
                            bool ahead) {
  return [=](Program& program) {
    Critic critic(program);
    std::optional<Loader> validation, training;
    if (is_first) validation = program.rows(own_samples, 50);
    training = program.rows(samples);
    if (!is_first) validation = program.rows(own_samples, 50);
    for (auto epoch = asks ? training->epoch() : 0; epoch < 2; ++epoch) {
      auto other = validation->begin();
      for (auto& batch : *training) {
        if (other == validation->end()) other = validation->begin();
        critic.step(other->data);
        if (ahead) ++other;
        program.step(batch);
        if (!ahead) ++other;
      }
      program.end_epoch();
    }
    program.accelerator.end_training();
  };
}

TEST(TrainingRounds, ResumeExactlyIfArchitectureAndWeightsHaveALoaderEach) {
  for (const bool is_first : {true, false})
    for (const bool asks : {true, false})
      for (const bool ahead : {true, false}) {
        if (asks && !is_first) continue;  // unambiguous
        SCOPED_TRACE(std::string(is_first ? "validation prepared first" : "training prepared first") +
                     (asks ? ", asks" : "") + (ahead ? ", loads ahead" : ""));
        expect_it_resumes(searches_architectures(8, 6, is_first, asks, ahead), 16, {3});
      }
}

// Until a full round has been seen, the loader prepared first counts as the training loader.
TEST(TrainingRounds, ResumeExactlyIfTheFirstCheckpointPrecedesTheFirstRound) {
  for (const bool ahead : {true, false}) {
    SCOPED_TRACE(ahead ? "loads ahead" : "loads behind the step");
    expect_it_resumes(searches_architectures(6, 4, /*is_first=*/true, /*asks=*/false, ahead), 12, {2, 3});
  }
}

}  // namespace
}  // namespace hookline
