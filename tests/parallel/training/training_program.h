// A training program whose loop the tests supply: killed after any step and resumed, it must end as if
// uninterrupted.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "parallel/accelerator.h"
#include "tests/support/logged_messages.h"
#include "tests/support/process.h"
#include "tests/support/run_ranks.h"

namespace hookline::testing {

using WorldPtr = std::shared_ptr<World>;
using Batch = torch::data::Example<>;

struct Rows : torch::data::datasets::Dataset<Rows> {
  explicit Rows(std::size_t count_in, int first_in = 0, bool draws_in = false)
      : count(count_in), first(first_in), draws(draws_in) {}
  Batch get(std::size_t index) override {
    const auto i = static_cast<float>(index) + static_cast<float>(first);
    const at::Tensor noise = draws ? torch::rand({4}) : torch::zeros({4});
    return {torch::sin(torch::arange(4).to(torch::kFloat) * (i + 1)) + noise, torch::full({2}, i / 10)};
  }
  torch::optional<std::size_t> size() const override { return count; }
  std::size_t count;
  int first;
  bool draws;  // draws random numbers for each sample
};
using Loader = DataLoader<Rows>;

struct Interrupted {};

/// One process of the program: a model, an optimizer, and whatever its loop prepares.
struct Program {
  explicit Program(Accelerator& accelerator_in, std::int64_t stop_at_in)
      : accelerator(accelerator_in), stop_at(stop_at_in) {}

  Loader rows(std::size_t count, int first = 0, bool draws = false) {
    return accelerator.prepare(data_loader(Rows(count, first, draws), {.batch_size = 2}));
  }
  at::Tensor loss(const at::Tensor& data, const at::Tensor& target) {
    return (model->forward(data) - target).pow(2).mean();
  }
  void step(const at::Tensor& data, const at::Tensor& target) {
    accelerator.backward(loss(data, target));
    step_optimizer();
  }
  void step(const Batch& batch) { step(batch.data, batch.target); }
  /// A step on data that comes from no loader.
  void step(double value) { step(torch::full({2, 4}, value), torch::ones({2, 2})); }
  void step_optimizer() {
    optimizer.step();
    optimizer.zero_grad();
    may_stop();
  }
  void may_stop() {
    if (accelerator.steps_done() >= stop_at) throw Interrupted();
  }
  /// Done after each epoch: sets a learning rate that depends on the weights.
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

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// Runs `loop` on one rank to its end, or until `stop_at` steps are done, as if the process were then killed.
inline End run(const RunConfig& config, const Loop& loop, std::int64_t stop_at = kNever) {
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

inline RunConfig saving_in(const std::string& folder, std::int64_t every) {
  RunConfig config;
  config.training.checkpoint_every_steps = every;
  config.training.checkpoint_dir = folder + "/checkpoints";
  config.training.resume = "auto";
  return config;
}

inline RunConfig saving(const TemporaryFolder& scratch, std::int64_t every) {
  return saving_in(scratch.path(), every);
}

inline void expect_same(const End& end, const End& whole) {
  EXPECT_EQ(end.steps, whole.steps);
  EXPECT_EQ(end.rate, whole.rate);
  EXPECT_TRUE(end.weight.equal(whole.weight));
}

/// The warnings, without those that a run killed by the test logs in its destructor.
inline std::string warnings_of(const Messages& messages) {
  std::istringstream lines(messages.text());
  std::string warnings;
  for (std::string line; std::getline(lines, line);) {
    const auto holds = [&](const char* text) { return line.find(text) != std::string::npos; };
    if (holds("warning") && !holds("has saved no checkpoint") && !holds("was not saved"))
      warnings += line + "\n";
  }
  return warnings;
}

/// Kills `loop` after each step, once more two steps later, then lets it finish; expects the uninterrupted
/// result.
inline void expect_it_resumes(const Loop& loop, std::int64_t steps,
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

/// What `loop` logs until `stop_at`, with a checkpoint every `every` steps.
inline std::string messages_of(const Loop& loop, std::int64_t every, std::int64_t stop_at = kNever) {
  const TemporaryFolder scratch;
  const Messages messages;
  run(saving(scratch, every), loop, stop_at);
  return messages.text();
}

/// A second model, whose optimizer is prepared before or after the program's.
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

}  // namespace hookline::testing
