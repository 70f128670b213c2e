// Training loops of many shapes: each resumes with the same bits, or the run says that it can't be resumed exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "parallel/accelerator.h"
#include "tests/support/failure.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::failure_of;
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

}  // namespace
}  // namespace hookline
