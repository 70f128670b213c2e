// Training loops of many shapes: each resumes bit for bit, or the run warns that it cannot resume exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

#include "tests/parallel/training/training_program.h"

namespace hookline {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using ::testing::Not;

// --- what a program registers --------------------------------------------------------------------

TEST(TrainingLoopShapes, ResumesExactlyWithARegisteredModelAndALoopFromZero) {
  const Loop loop = [](Program& program) {
    torch::nn::Linear average(4, 2);
    program.accelerator.register_for_checkpointing("average", *average);
    program.accelerator.register_for_checkpointing("sgd", program.sgd);
    Loader training = program.rows(8);
    for (int epoch = 0; epoch < 3; ++epoch)
      for (auto& batch : training) program.step(batch);
    program.accelerator.end_training();
  };
  expect_it_resumes(loop, 12);
}

// --- backward and step ---------------------------------------------------------------------------

TEST(TrainingLoopShapes, IsQuietIfACheckpointIsDueAfterTheFirstStep) {
  const Loop accumulates_by_hand = [](Program& program) {
    Loader training = program.rows(32);
    int batches = 0;
    for (auto& batch : training) {
      program.accelerator.backward(program.loss(batch.data, batch.target));
      if (++batches % 4 == 0) program.step_optimizer();
    }
    program.accelerator.end_training();
  };
  EXPECT_THAT(messages_of(accumulates_by_hand, 1), Not(HasSubstr("warning")));
}

// --- data of the program's own -------------------------------------------------------------------

const char* const kCountsFromZero =
    "hookline: warning: the program trains without a prepared loader, and called neither "
    "accelerator.steps_done() nor, with [training] max_steps, "
    "accelerator.should_stop() before its first step: if its loop counts steps from 0, a run that resumes "
    "takes the same steps again; begin the loop at accelerator.steps_done(), or register its count with "
    "register_for_checkpointing()\n";

TEST(TrainingLoopShapes, WarnsOfStepsCountedFromZeroAtTheFirstSaveAndOnResume) {
  const Loop loop = [](Program& program) {
    for (int step = 0; step < 12; ++step) {
      program.step(step * 0.1);
      if (program.accelerator.should_stop()) break;
    }
  };
  const TemporaryFolder scratch;
  const RunConfig config = saving(scratch, 4);
  {
    const Messages messages;
    run(config, loop, 3);
    EXPECT_THAT(messages.text(), Not(HasSubstr(kCountsFromZero)));
  }
  for (const std::int64_t stop_at : {6, 7}) {  // saves at step 4; then resumes there and saves nothing
    const Messages messages;
    run(config, loop, stop_at);
    EXPECT_THAT(messages.text(), HasSubstr(kCountsFromZero));
    EXPECT_EQ(messages.text().find(kCountsFromZero), messages.text().rfind(kCountsFromZero));
  }
}

TEST(TrainingLoopShapes, ResumesExactlyOnItsOwnDataCountedByStepsDone) {
  expect_it_resumes(
      [](Program& program) {
        for (auto step = program.accelerator.steps_done(); step < 8; ++step)
          program.step(0.1 * static_cast<double>(step));
      },
      8);
  expect_it_resumes(
      [](Program& program) {
        int step = 0;
        program.accelerator.register_for_checkpointing("step", step);
        while (step < 8) {
          const double value = 0.1 * step++;
          program.step(value);
        }
      },
      8);
}

// --- the end -------------------------------------------------------------------------------------

TEST(TrainingLoopShapes, RelaunchingAFinishedLoopFromZeroChangesNothing) {
  const Loop loop = [](Program& program) {
    Loader training = program.rows(8);
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (auto& batch : training) program.step(batch);
      program.end_epoch();
    }
    program.accelerator.end_training();
  };
  const TemporaryFolder scratch;
  const End whole = run(saving(scratch, 1000), loop);
  expect_same(run(saving(scratch, 1000), loop), whole);
}

TEST(TrainingLoopShapes, SaysThatAFinishedRunTrainsFurther) {
  const Loop loop = [](Program& program) {
    Loader training = program.rows(8);
    bool is_good = false;
    for (auto epoch = training.epoch(); epoch < 3 && !is_good && !program.accelerator.should_stop(); ++epoch)
      for (auto& batch : training) {
        program.step(batch);
        is_good = program.accelerator.steps_done() >= 6;
        if (is_good || program.accelerator.should_stop()) break;
      }
    program.accelerator.end_training();
  };
  const std::string trains_on =
      "hookline: the run that finished at step 6 continues, which is right if you asked for more epochs or "
      "steps. If the program had stopped early by a decision of its own, register the state behind that "
      "decision with register_for_checkpointing(), and test it before the first step\n";
  const TemporaryFolder scratch;
  const RunConfig config = saving(scratch, 1000);
  RunConfig stopped = config;
  stopped.training.max_steps = 4;
  run(stopped, loop);
  {
    const Messages messages;
    run(config, loop);
    EXPECT_THAT(messages.text(), Not(HasSubstr(" continues, which is right")))
        << "it was to stop after step 4";
  }
  const Messages messages;
  run(config, loop);
  EXPECT_THAT(messages.text(), HasSubstr(trains_on));
}

// --- batches that the program keeps --------------------------------------------------------------

TEST(TrainingLoopShapes, ResumesExactlyIfItPrefetchesABatch) {
  for (const bool moves : {false, true}) {
    expect_it_resumes(
        [moves](Program& program) {
          Loader training = program.rows(8);
          for (auto epoch = training.epoch(); epoch < 3; ++epoch) {
            for (auto it = training.begin(); it != training.end();) {
              const Batch batch = moves ? std::move(*it) : *it;
              ++it;
              program.step(batch);
            }
            program.end_epoch();
          }
          program.accelerator.end_training();
        },
        12);
  }
}

TEST(TrainingLoopShapes, ResumesExactlyIfItSkipsBatchesOrSumsTheirLosses) {
  expect_it_resumes(
      [](Program& program) {
        Loader training = program.rows(8);
        for (auto epoch = training.epoch(); epoch < 3; ++epoch)
          for (auto& batch : training)
            if (batch.target.max().item<float>() > 0.35) program.step(batch);
        program.accelerator.end_training();
      },
      run({}, [](Program& program) {
        Loader training = program.rows(8);
        for (int epoch = 0; epoch < 3; ++epoch)
          for (auto& batch : training)
            if (batch.target.max().item<float>() > 0.35) program.step(batch);
      }).steps);
  expect_it_resumes(
      [](Program& program) {
        Loader training = program.rows(16);
        for (auto epoch = training.epoch(); epoch < 2; ++epoch) {
          at::Tensor sum;
          int batches = 0;
          for (auto& batch : training) {
            const at::Tensor loss = program.loss(batch.data, batch.target);
            sum = sum.defined() ? sum + loss : loss;
            if (++batches % 2 != 0) continue;
            program.accelerator.backward(sum);
            sum = at::Tensor();
            program.step_optimizer();
          }
        }
        program.accelerator.end_training();
      },
      8);
}

TEST(TrainingLoopShapes, WarnsOfTrainingOnACopyOfThePreviousBatch) {
  const Loop loop = [](Program& program) {
    Loader training = program.rows(8);
    for (auto it = training.begin(); it != training.end();) {
      const at::Tensor data = it->data * 2, target = it->target * 2;
      ++it;
      program.step(data, target);
    }
  };
  EXPECT_THAT(
      messages_of(loop, 2),
      HasSubstr(
          "hookline: warning: the program loads the next batch before it trains on what it made of the "
          "previous one: a run that resumes leaves out one batch; load the next batch after the step\n"));
}

TEST(TrainingLoopShapes, WarnsOfAPrefetchedBatchReloadedWithOtherRandomNumbers) {
  const auto trains = [](bool ahead) {
    return [ahead](Program& program) {
      Loader training = program.rows(8, 0, /*draws=*/true);
      for (auto epoch = training.epoch(); epoch < 2; ++epoch)
        for (auto it = training.begin(); it != training.end();) {
          const Batch batch = *it;
          if (ahead) ++it;
          program.step(batch);
          if (!ahead) ++it;
        }
      program.accelerator.end_training();
    };
  };
  expect_it_resumes(trains(/*ahead=*/false), 8);
  EXPECT_THAT(
      messages_of(trains(/*ahead=*/true), 3),
      HasSubstr("hookline: warning: the checkpoint of step 6 is saved after a batch was loaded that is not "
                "trained on yet, and loading it drew random numbers: a run that resumes loads the batch "
                "again, with other numbers; load the next batch after the step, or seed what the dataset "
                "draws by the index of the sample\n"));
}

// --- steps after a loop, and several on a batch ------------------------------------------------------------

TEST(TrainingLoopShapes, ResumesExactlyIfItStepsAfterEachLoop) {
  expect_it_resumes(
      [](Program& program) {
        Loader training = program.rows(8);
        for (auto epoch = training.epoch(); epoch < 3; ++epoch) {
          for (auto& batch : training) program.step(batch);
          program.step(1.0);
          program.end_epoch();
        }
        program.accelerator.end_training();
      },
      15, {1, 2, 3});
  expect_it_resumes(
      [](Program& program) {
        Loader training = program.rows(12);
        for (auto epoch = training.epoch(); epoch < 3; ++epoch) {
          int batches = 0;
          for (auto& batch : training) {
            program.accelerator.backward(program.loss(batch.data, batch.target));
            if (++batches % 4 == 0) program.step_optimizer();
          }
          if (batches % 4 != 0) program.step_optimizer();
          program.end_epoch();
        }
        program.accelerator.end_training();
      },
      6, {1, 2});
}

TEST(TrainingLoopShapes, WarnsOfACheckpointAmongStepsAfterALoop) {
  const Loop loop = [](Program& program) {
    Loader training = program.rows(8);
    for (auto epoch = training.epoch(); epoch < 2; ++epoch) {
      for (auto& batch : training) program.step(batch);
      for (int step = 0; step < 5; ++step) program.step(1.0);
      program.end_epoch();
    }
    program.accelerator.end_training();
  };
  EXPECT_THAT(
      messages_of(loop, 2),
      HasSubstr(
          "hookline: warning: the checkpoint of step 8 was saved after a loop over the training loader, "
          "before the end of the body around it: a run that resumes from it leaves out the rest of that "
          "body; take fewer steps in that rest than checkpoint_every_steps, or begin the loop over epochs at "
          "0 if it trains on several loaders\n"));
}

TEST(TrainingLoopShapes, IsQuietAboutStepsOnOwnDataAfterTheLastLoop) {
  const Loop loop = [](Program& program) {
    Loader training = program.rows(8);
    for (auto epoch = training.epoch(); epoch < 2; ++epoch)
      for (auto& batch : training) program.step(batch);
    while (program.accelerator.steps_done() < 16) program.step(1.0);
    program.accelerator.end_training();
  };
  expect_it_resumes(loop, 16);
}

// --- several loaders -----------------------------------------------------------------------------

TEST(TrainingLoopShapes, ResumesExactlyInANestedLoop) {
  for (const bool asks : {true, false})
    expect_it_resumes(
        [asks](Program& program) {
          Loader outer = program.rows(6), inner = program.rows(6, 20);
          for (auto epoch = asks ? outer.epoch() : 0; epoch < 2; ++epoch)
            for (auto& first : outer)
              for (auto& second : inner) program.step(second.data + first.data, second.target);
          program.accelerator.end_training();
        },
        18, {3, 4});
}

TEST(TrainingLoopShapes, ResumesExactlyWithTwoLoadersFromEpochZero) {
  expect_it_resumes(
      [](Program& program) {
        Loader training = program.rows(8), second = program.rows(8, 20);
        for (int epoch = 0; epoch < 3; ++epoch) {
          auto other = second.begin();
          for (auto& batch : training) {
            program.step(batch.data + other->data, batch.target);
            ++other;
          }
        }
        program.accelerator.end_training();
      },
      12);
}

TEST(TrainingLoopShapes, ResumesExactlyWithAShorterLoaderPreparedFirst) {
  expect_it_resumes(
      [](Program& program) {
        Loader shorter = program.rows(6, 20), training = program.rows(8);
        auto other = shorter.begin();
        for (auto epoch = training.epoch(); epoch < 3; ++epoch)
          for (auto& batch : training) {
            if (other == shorter.end()) other = shorter.begin();
            program.step(batch.data + other->data, batch.target);
            ++other;
          }
        program.accelerator.end_training();
      },
      12);
}

TEST(TrainingLoopShapes, ResumesExactlyFromEpochZeroWithASecondLoader) {
  for (const std::size_t rows : {6, 14})
    expect_it_resumes(
        [rows](Program& program) {
          Loader training = program.rows(8), second = program.rows(rows, 20);
          auto other = second.begin();
          for (int epoch = 0; epoch < 3; ++epoch)
            for (auto& batch : training) {
              if (other == second.end()) other = second.begin();
              program.step(batch.data + other->data, batch.target);
              ++other;
            }
          program.accelerator.end_training();
        },
        12);
}

TEST(TrainingLoopShapes, ResumesExactlyIfAnEvaluationRunsBackward) {
  expect_it_resumes(
      [](Program& program) {
        Loader validation = program.rows(8, 50), training = program.rows(8);
        for (auto epoch = training.epoch(); epoch < 3; ++epoch) {
          for (auto& batch : training) program.step(batch);
          int batches = 0;
          for (auto& batch : validation) {
            const at::Tensor data = batch.data.clone().requires_grad_();
            program.accelerator.backward(program.loss(data, batch.target));
            program.optimizer.zero_grad();
            program.rate *= 0.9 + 0.01 * data.grad().sign().mean().item<double>();
            if (++batches == 2) break;
          }
          program.use_rate();
        }
        program.accelerator.end_training();
      },
      12);
}

TEST(TrainingLoopShapes, SaysThatPreparationOrderDecidesBetweenTwoLoaders) {
  const Loop loop = [](Program& program) {
    Loader first = program.rows(8), second = program.rows(8, 20);
    auto other = second.begin();
    for (auto& batch : first) {
      program.step(batch.data + other->data, batch.target);
      ++other;
    }
  };
  EXPECT_THAT(
      messages_of(loop, 2),
      HasSubstr(
          "hookline: two prepared loaders are trained on at once, and the program has called epoch() of "
          "none or of both: the one that was prepared first counts as the training loader, whose batches "
          "decide where checkpoints are saved and where gradient accumulation ends early; prepare the "
          "training loader first, or call epoch() of it alone\n"));
}

TEST(TrainingLoopShapes, WarnsIfASecondTrainingLoadersEpochIsNotRead) {
  const Loop in_turn = [](Program& program) {
    Loader first = program.rows(8), second = program.rows(16, 20);
    for (auto epoch = first.epoch(); epoch < 2; ++epoch) {
      for (auto& batch : first) program.step(batch);
      for (auto& batch : second) program.step(batch);
    }
    program.accelerator.end_training();
  };
  const std::string warning =
      "hookline: warning: the checkpoint of step 9 is saved in a loop over one training loader, and the "
      "program "
      "has called epoch() of another one only: a run that resumes begins with that other "
      "loader, and repeats or leaves out part of this loop; begin each loop over epochs at the epoch() of "
      "its own loader, or, if one loop over epochs "
      "trains "
      "on several loaders, at 0\n";
  EXPECT_THAT(messages_of(in_turn, 3), HasSubstr(warning));
  expect_it_resumes(
      [](Program& program) {
        Loader first = program.rows(8), second = program.rows(6, 20);
        for (int epoch = 0; epoch < 2; ++epoch) {
          for (auto& batch : first) program.step(batch);
          for (auto& batch : second) program.step(batch);
        }
        program.accelerator.end_training();
      },
      14);
}

// --- how a program draws batches, and leaves its loops -------------------------------------------

TEST(TrainingLoopShapes, ResumesExactlyWithAHelperThatDrawsTheNextBatch) {
  const auto draws = [](const std::function<Batch(Loader&, std::optional<Loader::Iterator>&)>& next) {
    return [next](Program& program) {
      Loader training = program.rows(8);
      std::optional<Loader::Iterator> iterator;
      while (program.accelerator.steps_done() < 12) program.step(next(training, iterator));
      program.accelerator.end_training();
    };
  };
  expect_it_resumes(draws([](Loader& loader, std::optional<Loader::Iterator>& it) {
                      if (!it) {
                        it = loader.begin();
                      } else if (++*it == loader.end()) {
                        it = loader.begin();
                      }
                      return **it;
                    }),
                    12);
  expect_it_resumes(draws([](Loader& loader, std::optional<Loader::Iterator>& it) {
                      if (!it || *it == loader.end()) it = loader.begin();
                      const Batch batch = **it;
                      ++*it;
                      return batch;
                    }),
                    12);
  expect_it_resumes(draws([](Loader& loader, std::optional<Loader::Iterator>& it) {
                      if (it && ++*it == loader.end()) it.reset();
                      if (!it) it = loader.begin();
                      return **it;
                    }),
                    12);
}

TEST(TrainingLoopShapes, ResumesExactlyAfterPeekingBeforeALoopFromZero) {
  expect_it_resumes(
      [](Program& program) {
        Loader training = program.rows(8);
        EXPECT_EQ((*training.begin()).data.size(0), 2);
        for (int epoch = 0; epoch < 3; ++epoch)
          for (auto& batch : training) program.step(batch);
        program.accelerator.end_training();
      },
      12);
}

TEST(TrainingLoopShapes, TrainsTheSameNumberOfEpochsIfTheLoopReadsEach) {
  expect_it_resumes(
      [](Program& program) {
        Loader training = program.rows(8);
        while (training.epoch() < 3) {
          for (auto& batch : training) program.step(batch);
          program.end_epoch();
        }
        program.accelerator.end_training();
      },
      12);
}

void leave_each_loop_after_three(Program& program, int& batches) {
  Loader training = program.rows(8);
  for (auto epoch = training.epoch(); epoch < 4; ++epoch) {
    for (auto& batch : training) {
      ++batches;
      program.step(batch);
      if (program.accelerator.should_stop() || batches == 3) break;
    }
    if (batches == 3) batches = 0;
    if (program.accelerator.should_stop()) break;
  }
  program.accelerator.end_training();
}

TEST(TrainingLoopShapes, WarnsOfABatchCountThatRestartsOnResume) {
  const Loop loop = [](Program& program) {
    int batches = 0;
    leave_each_loop_after_three(program, batches);
  };
  EXPECT_THAT(
      messages_of(loop, 2),
      HasSubstr("hookline: warning: the program leaves its loop over the training loader before the end of "
                "each epoch: if it counts the batches of a loop by itself, a run that resumes in the middle "
                "of one counts them from 0 again and trains on more of them; register the count with "
                "register_for_checkpointing(), and set it to 0 after the loop\n"));
}

TEST(TrainingLoopShapes, ResumesExactlyAfterMaxStepsInALoopLeftEarly) {
  const Loop loop = [](Program& program) {
    int batches = 0;
    program.accelerator.register_for_checkpointing("batches", batches);
    leave_each_loop_after_three(program, batches);
  };
  const End whole = run({}, loop);
  ASSERT_EQ(whole.steps, 12);
  for (std::int64_t stop_at = 1; stop_at < 12; ++stop_at) {
    if (stop_at % 3 == 0) continue;  // where the program would have left its loop anyway
    SCOPED_TRACE(stop_at);
    const TemporaryFolder scratch;
    RunConfig config = saving(scratch, 1000);
    RunConfig stopped = config;
    stopped.training.max_steps = stop_at;
    run(stopped, loop);
    expect_same(run(config, loop), whole);
  }
}

// --- std::exit -----------------------------------------------------------------------------------

TEST(TrainingLoopShapesDeathTest, WarnsOfAnUnsavedCheckpointWhenTheProgramExits) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const TemporaryFolder scratch;
  EXPECT_EXIT(
      {
        run(saving(scratch, 1000), [](Program& program) {
          Loader training = program.rows(8);
          for (auto& batch : training) program.step(batch);
          std::exit(0);
        });
      },
      ::testing::ExitedWithCode(0),
      "warning: checkpoint_every_steps is 1000, [^\n]* no checkpoint: it took 4 steps, ");
}

}  // namespace
}  // namespace hookline
