// Training loops of many shapes: each resumes with the same bits, or the run says that it can't be resumed exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "parallel/accelerator.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using ::testing::HasSubstr;
using testing::Messages;
using ::testing::Not;
using testing::run_ranks;
using testing::TemporaryFolder;
using WorldPtr = std::shared_ptr<World>;
using Batch = torch::data::Example<>;

struct Rows : torch::data::datasets::Dataset<Rows> {
  explicit Rows(std::size_t count_in, int first_in = 0) : count(count_in), first(first_in) {}
  Batch get(std::size_t index) override {
    const auto i = static_cast<float>(index) + static_cast<float>(first);
    return {torch::sin(torch::arange(4).to(torch::kFloat) * (i + 1)), torch::full({2}, i / 10)};
  }
  torch::optional<std::size_t> size() const override { return count; }
  std::size_t count;
  int first;
};
using Loader = DataLoader<Rows>;

struct Interrupted {};

/// One process of a program: a model, an optimizer, and whatever else its loop prepares.
struct Program {
  explicit Program(Accelerator& accelerator_in, std::int64_t stop_at_in)
      : accelerator(accelerator_in), stop_at(stop_at_in) {}

  Loader rows(std::size_t count, int first = 0) {
    return accelerator.prepare(data_loader(Rows(count, first), {.batch_size = 2}));
  }
  at::Tensor loss(const at::Tensor& data, const at::Tensor& target) {
    return (model->forward(data) - target).pow(2).mean();
  }
  void step(const at::Tensor& data, const at::Tensor& target) {
    accelerator.backward(loss(data, target));
    step_optimizer();
  }
  void step(const Batch& batch) { step(batch.data, batch.target); }
  /// On data of the program's own.
  void step(double value) { step(torch::full({2, 4}, value), torch::ones({2, 2})); }
  void step_optimizer() {
    optimizer.step();
    optimizer.zero_grad();
    may_stop();
  }
  void may_stop() {
    if (accelerator.steps_done() >= stop_at) throw Interrupted();
  }
  /// What a program does behind an epoch: another rate, which depends on the weights.
  void end_epoch() {
    const at::NoGradGuard no_grad;
    rate *= 0.9 - 0.01 * net->forward(torch::ones({1, 4})).abs().sum().item<double>();
    use_rate();
  }
  void use_rate() { sgd.param_groups()[0].options().set_lr(rate); }

  Accelerator& accelerator;
  std::int64_t stop_at;
  torch::nn::Linear net = [] {
    torch::nn::Linear linear(4, 2);
    const at::NoGradGuard no_grad;
    linear->weight.copy_(torch::arange(8).view({2, 4}) * 0.01);
    linear->bias.fill_(0.1);
    return linear;
  }();
  torch::optim::SGD sgd{net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)};
  DistributedModule<torch::nn::LinearImpl> model = accelerator.prepare(net);
  PreparedOptimizer<torch::optim::SGD> optimizer = accelerator.prepare(sgd);
  double rate = 0.1;
};
using Loop = std::function<void(Program&)>;

struct End {
  std::int64_t steps = 0;
  double rate = 0;
  at::Tensor weight;
};

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// Runs `loop` on one rank until its end, or until `stop_at` steps are done, as if the process were killed.
End run(const RunConfig& config, const Loop& loop, std::int64_t stop_at = kNever) {
  End end;
  run_ranks(1, [&](const WorldPtr& world) {
    torch::manual_seed(1);
    Accelerator accelerator(config, world);
    Program program(accelerator, stop_at);
    accelerator.register_for_checkpointing("rate", program.rate);
    program.use_rate();
    try {
      loop(program);
    } catch (const Interrupted&) {
    }
    end = {accelerator.steps_done(), program.rate, program.net->weight.detach().clone()};
  });
  return end;
}

RunConfig saving(const TemporaryFolder& scratch, std::int64_t every) {
  RunConfig config;
  config.training.checkpoint_every_steps = every;
  config.training.checkpoint_dir = scratch.path() / "checkpoints";
  config.training.resume = "auto";
  return config;
}

void expect_same(const End& end, const End& whole) {
  EXPECT_EQ(end.steps, whole.steps);
  EXPECT_EQ(end.rate, whole.rate);
  EXPECT_TRUE(end.weight.equal(whole.weight));
}

/// Without what a run that is killed here says when it is destroyed.
std::string warnings_of(const Messages& messages) {
  std::istringstream lines(messages.text());
  std::string warnings;
  for (std::string line; std::getline(lines, line);) {
    const auto holds = [&](const char* text) { return line.find(text) != std::string::npos; };
    if (holds("warning") && !holds("has saved no checkpoint") && !holds("was not saved"))
      warnings += line + "\n";
  }
  return warnings;
}

/// Kills `loop` after each of its steps, and again two steps on, and lets it end.
void expect_it_resumes(const Loop& loop, std::int64_t steps,
                       const std::vector<std::int64_t>& intervals = {2, 3}) {
  const End whole = run({}, loop);
  ASSERT_EQ(whole.steps, steps);
  for (const std::int64_t every : intervals) {
    for (std::int64_t stop_at = 1; stop_at < steps; ++stop_at) {
      SCOPED_TRACE("saved every " + std::to_string(every) + " steps, stopped at " + std::to_string(stop_at));
      const TemporaryFolder scratch;
      const RunConfig config = saving(scratch, every);
      const Messages messages;
      run(config, loop, stop_at);
      run(config, loop, stop_at + 2);
      expect_same(run(config, loop), whole);
      EXPECT_EQ(warnings_of(messages), "");
    }
  }
}

/// What `loop` logs while it runs, with checkpoints every `every` steps, until `stop_at`.
std::string messages_of(const Loop& loop, std::int64_t every, std::int64_t stop_at = kNever) {
  const TemporaryFolder scratch;
  const Messages messages;
  run(saving(scratch, every), loop, stop_at);
  return messages.text();
}

// --- what a program registers ---------------------------------------------------------------------------------------

TEST(TrainingLoopShapes, ResumesRightWithARegisteredModelAndALoopFromZero) {
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

// --- backward and step ----------------------------------------------------------------------------------------------

TEST(TrainingLoopShapes, IsQuietThoughACheckpointIsDueAfterTheFirstStep) {
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

// --- data of the program's own --------------------------------------------------------------------------------------

const char* const kCountsFromZero =
    "hookline: warning: the program trains without a prepared loader, and called neither "
    "accelerator.steps_done() nor "
    "accelerator.should_stop() before its first step: if its loop counts steps from 0, a run that resumes "
    "takes the same steps again; begin the loop at accelerator.steps_done(), or register its count with "
    "register_for_checkpointing()\n";

TEST(TrainingLoopShapes, WarnsAtTheFirstSaveAndAfterAResumeOfStepsThatAreCountedFromZero) {
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
  for (const std::int64_t stop_at : {6, 7}) {  // until the first save, and without one
    const Messages messages;
    run(config, loop, stop_at);
    EXPECT_THAT(messages.text(), HasSubstr(kCountsFromZero));
    EXPECT_EQ(messages.text().find(kCountsFromZero), messages.text().rfind(kCountsFromZero));
  }
}

TEST(TrainingLoopShapes, ResumesRightOnDataOfItsOwnThatItCounts) {
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

// --- the end --------------------------------------------------------------------------------------------------------

TEST(TrainingLoopShapes, EndsWithTheSameRateWhenAFinishedRunWithALoopFromZeroIsLaunchedAgain) {
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

TEST(TrainingLoopShapes, SaysThatARunWhichEndedByItselfTrainsOn) {
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
      "hookline: the run had called accelerator.end_training() after step 6, and now trains on: if the "
      "program "
      "itself decided to end there, register what it decides by with register_for_checkpointing(), and look "
      "at "
      "it before the first step\n";
  const TemporaryFolder scratch;
  const RunConfig config = saving(scratch, 1000);
  RunConfig stopped = config;
  stopped.training.max_steps = 4;
  run(stopped, loop);
  {
    const Messages messages;
    run(config, loop);
    EXPECT_THAT(messages.text(), Not(HasSubstr("trains on"))) << "it was to stop after step 4";
  }
  const Messages messages;
  run(config, loop);
  EXPECT_THAT(messages.text(), HasSubstr(trains_on));
}

// --- batches that the program keeps ---------------------------------------------------------------------------------

TEST(TrainingLoopShapes, ResumesRightThoughItLoadsABatchBeforeItTrainsOnTheOneBefore) {
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

TEST(TrainingLoopShapes, ResumesRightThoughItLeavesOutBatchesOrSumsTheirLosses) {
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

TEST(TrainingLoopShapes, WarnsOfTrainingOnACopyOfTheBatchBefore) {
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
          "hookline: warning: the program trains on what it made of a batch after it has loaded the next "
          "one: a run that resumes leaves out one batch; load the next batch after the step\n"));
}

// --- steps behind a loop, and several on a batch ----------------------------------------------------------------------

TEST(TrainingLoopShapes, ResumesRightThoughItStepsBehindEachLoop) {
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

TEST(TrainingLoopShapes, WarnsOfACheckpointAmongStepsBehindALoop) {
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
          "hookline: warning: the checkpoint of step 8 was saved behind a loop over the training loader, "
          "before the end of the body around it: a run that resumes from it leaves out the rest of that "
          "body; take fewer steps there than checkpoint_every_steps, or begin the loop over epochs at 0 "
          "if it trains on several loaders\n"));
}

TEST(TrainingLoopShapes, IsQuietOfStepsOnOwnDataBehindTheLastLoop) {
  const Loop loop = [](Program& program) {
    Loader training = program.rows(8);
    for (auto epoch = training.epoch(); epoch < 2; ++epoch)
      for (auto& batch : training) program.step(batch);
    while (program.accelerator.steps_done() < 16) program.step(1.0);
    program.accelerator.end_training();
  };
  expect_it_resumes(loop, 16);
}

// --- several loaders --------------------------------------------------------------------------------------------------

TEST(TrainingLoopShapes, ResumesRightInALoopNestedInAnother) {
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

TEST(TrainingLoopShapes, ResumesRightWithTwoLoadersFromEpochZero) {
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

TEST(TrainingLoopShapes, ResumesRightWithAShorterLoaderThatWasPreparedFirst) {
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

TEST(TrainingLoopShapes, ResumesRightFromEpochZeroWithAnotherLoaderThatItDrawsFrom) {
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

TEST(TrainingLoopShapes, ResumesRightThoughItRunsBackwardInAnEvaluation) {
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

TEST(TrainingLoopShapes, SaysThatTheOrderOfPreparationDecidesBetweenTwoLoaders) {
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
          "none or of both: the one that was prepared first counts as the training loader, at whose "
          "batches checkpoints are saved and accumulation ends an epoch; prepare the training loader "
          "first, or call epoch() of it alone\n"));
}

TEST(TrainingLoopShapes, WarnsOfASecondTrainingLoaderWhoseEpochItDoesNotAsk) {
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
      "has called epoch() of another one only: a run that resumes begins there, and repeats or leaves out "
      "part of "
      "this loop; begin each loop over epochs at the epoch() of its own loader, or, if one loop over epochs "
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

// --- how a program draws batches, and leaves its loops ------------------------------------------------------------------

TEST(TrainingLoopShapes, ResumesRightWithAHelperThatDrawsTheNextBatch) {
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

TEST(TrainingLoopShapes, ResumesRightWithALookAtABatchBeforeALoopFromZero) {
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

TEST(TrainingLoopShapes, TrainsAsManyEpochsWhenTheLoopAsksForEach) {
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

TEST(TrainingLoopShapes, WarnsOfItsOwnCountOfBatchesThatARunStartsAnew) {
  const Loop loop = [](Program& program) {
    int batches = 0;
    leave_each_loop_after_three(program, batches);
  };
  EXPECT_THAT(
      messages_of(loop, 2),
      HasSubstr("hookline: warning: the program leaves its loop over the training loader before the end of "
                "each epoch: if it counts the batches of a loop by itself, a run that resumes in the middle "
                "of one counts them from 0 again and trains on more of them; register the count with "
                "register_for_checkpointing(), and set it back behind the loop\n"));
}

TEST(TrainingLoopShapes, ResumesRightAfterMaxStepsInALoopThatItLeavesEachTime) {
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

// --- several optimizers -----------------------------------------------------------------------------------------------

/// A second model, with an optimizer that was prepared before the program's or behind it.
struct Critic {
  explicit Critic(Program& program_in) : program(program_in) {
    torch::NoGradGuard no_grad;
    net->weight.fill_(0.2);
    net->bias.fill_(0);
  }
  void step(const at::Tensor& data) {
    program.accelerator.backward((model->forward(data) - 1).pow(2).mean());
    optimizer.step();
    optimizer.zero_grad();
    program.may_stop();
  }

  Program& program;
  torch::nn::Linear net{4, 1};
  torch::optim::SGD sgd{net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9)};
  DistributedModule<torch::nn::LinearImpl> model = program.accelerator.prepare(net);
  PreparedOptimizer<torch::optim::SGD> optimizer = program.accelerator.prepare(sgd);
};

TEST(TrainingLoopShapes, ResumesRightWithTwoOptimizersOnOwnDataInEitherOrder) {
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

TEST(TrainingLoopShapes, WarnsOfACheckpointBetweenTheStepsOfTwoOptimizers) {
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
          "run that resumes from it begins with the first one's; save less often, with a larger "
          "checkpoint_every_steps\n"));
}

TEST(TrainingLoopShapes, KeepsGradientsThatTheProgramGathersForASecondModel) {
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

// --- std::exit --------------------------------------------------------------------------------------------------------

TEST(TrainingLoopShapesDeathTest, RemindsOfACheckpointWhenTheProgramExits) {
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
      "warning: checkpoint_every_steps is 1000, but the run has saved no checkpoint: it took 4 steps, fewer "
      "than up "
      "to the next checkpoint, and the program did not call accelerator.end_training\\(\\), which saves the "
      "end");
}

}  // namespace
}  // namespace hookline
