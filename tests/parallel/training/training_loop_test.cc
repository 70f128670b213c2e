// How accumulation and checkpoints track a program's training loops, and distinguish them from evaluations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "parallel/accelerator.h"
#include "tests/support/logged_messages.h"
#include "tests/support/process.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Messages;
using ::testing::Not;
using testing::run_ranks;
using testing::TemporaryFolder;
using torch::nn::LinearImpl;
using WorldPtr = std::shared_ptr<World>;

struct Rows : torch::data::datasets::Dataset<Rows> {
  explicit Rows(std::size_t count_in) : count(count_in) {}
  torch::data::Example<> get(std::size_t index) override {
    const auto i = static_cast<float>(index);
    return {torch::sin(torch::arange(4).to(torch::kFloat) * (i + 1)), torch::full({2}, i / 10)};
  }
  torch::optional<std::size_t> size() const override { return count; }
  std::size_t count;
};

torch::nn::Linear linear() {
  torch::nn::Linear net(4, 2);
  const torch::NoGradGuard no_grad;
  net->weight.copy_(torch::arange(8).view({2, 4}) * 0.01);
  net->bias.fill_(0.1);
  return net;
}

auto rows(std::size_t count) { return data_loader(Rows(count), {.batch_size = 2}); }

RunConfig accumulating(std::int64_t steps) {
  RunConfig config;
  config.training.gradient_accumulation_steps = steps;
  return config;
}

RunConfig saving(const fs::path& folder, std::int64_t every) {
  RunConfig config;
  config.training.checkpoint_every_steps = every;
  config.training.checkpoint_dir = folder / "checkpoints";
  return config;
}

bool has_checkpoint(const fs::path& folder, const std::string& step) {
  return fs::exists(folder / "checkpoints" / ("step_000000" + step));
}

// --- accumulation --------------------------------------------------------------------------------

/// For each of eight batches, four per step, whether gradients are communicated; `look` runs before each
/// batch.
std::vector<bool> communicates(bool validation_first, const std::function<void(DataLoader<Rows>&)>& look) {
  std::vector<bool> result;
  run_ranks(1, [&](const WorldPtr& world) {
    Accelerator accelerator(accumulating(4), world);
    auto model = accelerator.prepare(linear());
    std::optional<DataLoader<Rows>> validation, training;
    if (validation_first) validation = accelerator.prepare(rows(2));
    training = accelerator.prepare(rows(16));
    if (!validation) validation = accelerator.prepare(rows(2));
    for (auto& batch : *training) {
      look(*validation);
      accelerator.accumulate(model, [&] {
        result.push_back(accelerator.sync_gradients());
        accelerator.backward(model->forward(batch.data).sum());
      });
    }
  });
  return result;
}

TEST(TrainingLoop, AccumulatesAcrossAnEvaluationLeftEarly) {
  for (const bool validation_first : {true, false}) {
    const auto once = [](DataLoader<Rows>& validation) { EXPECT_EQ((*validation.begin()).data.size(0), 2); };
    EXPECT_THAT(communicates(validation_first, once),
                ElementsAre(false, false, false, true, false, false, false, true));
    const auto left = [](DataLoader<Rows>& validation) {
      for ([[maybe_unused]] auto& batch : validation) break;
      EXPECT_FALSE(validation.at_last_batch());
    };
    EXPECT_THAT(communicates(validation_first, left),
                ElementsAre(false, false, false, true, false, false, false, true));
  }
}

TEST(TrainingLoop, AccumulatesDespiteAKeptIterator) {
  for (const bool validation_first : {true, false}) {
    std::vector<DataLoader<Rows>::Iterator> kept;
    const auto keep = [&](DataLoader<Rows>& validation) {
      const torch::NoGradGuard no_grad;
      if (kept.empty()) kept.push_back(validation.begin());
    };
    EXPECT_THAT(communicates(validation_first, keep),
                ElementsAre(false, false, false, true, false, false, false, true));
  }
}

TEST(TrainingLoop, AccumulatesAcrossAShorterSecondLoader) {
  run_ranks(1, [](const WorldPtr& world) {
    Accelerator accelerator(accumulating(4), world);
    auto [model, training, second] = accelerator.prepare(linear(), rows(16), rows(6));
    std::vector<bool> communicated;
    auto more = second.begin();
    for (auto& batch : training) {
      if (more == second.end()) more = second.begin();
      accelerator.accumulate(model, [&, &model = model] {
        communicated.push_back(accelerator.sync_gradients());
        accelerator.backward(model->forward(batch.data + more->data).sum());
      });
      ++more;
    }
    EXPECT_THAT(communicated, ElementsAre(false, false, false, true, false, false, false, true));
  });
}

TEST(TrainingLoop, StepsAfterResumingWithAShorterAccumulation) {
  const TemporaryFolder scratch;
  const auto bodies = [&](const RunConfig& config, const std::string& from, int count,
                          const std::string& to) {
    std::int64_t steps = 0;
    run_ranks(1, [&](const WorldPtr& world) {
      Accelerator accelerator(config, world);
      auto net = linear();
      torch::optim::SGD sgd(net->parameters(), 0.1);
      auto [model, optimizer] = accelerator.prepare(net, sgd);
      if (!from.empty()) accelerator.load_state(from);
      for (int i = 0; i < count; ++i) {
        accelerator.accumulate(model, [&, &model = model, &optimizer = optimizer] {
          accelerator.backward(model->forward(torch::ones({1, 4})).sum());
          optimizer.step();
        });
      }
      if (!to.empty()) {
        EXPECT_TRUE(accelerator.save_state(to));
      }
      steps = accelerator.steps_done();
    });
    return steps;
  };
  const std::string state = scratch.path() / "state";
  EXPECT_EQ(bodies(accumulating(4), "", 3, state), 0);
  EXPECT_EQ(bodies(accumulating(2), state, 3, ""), 2) << "at once, and after two more";
}

// --- checkpoints ---------------------------------------------------------------------------------

TEST(TrainingLoop, SavesOnTimeDespiteAKeptIterator) {
  for (const bool keeps : {true, false}) {
    const TemporaryFolder scratch;
    run_ranks(2, [&](const WorldPtr& world) {
      Accelerator accelerator(saving(scratch.path(), 2), world);
      auto net = linear();
      torch::optim::SGD sgd(net->parameters(), 0.1);
      auto [model, optimizer, validation] = accelerator.prepare(net, sgd, rows(16));
      std::optional<DataLoader<Rows>::Iterator> kept = validation.begin();
      if (!keeps) kept.reset();
      for (int step = 0; step < 5; ++step) {
        accelerator.backward(model->forward(torch::ones({1, 4})).sum());
        optimizer.step();
        optimizer.zero_grad();
      }
    });
    EXPECT_TRUE(has_checkpoint(scratch.path(), "04")) << keeps;
  }
}

TEST(TrainingLoop, SavesOnTimeIfTheLastOptimizerNeverSteps) {
  const TemporaryFolder scratch;
  run_ranks(2, [&](const WorldPtr& world) {
    Accelerator accelerator(saving(scratch.path(), 2), world);
    auto net = linear();
    torch::optim::SGD sgd(net->parameters(), 0.1), for_later(net->parameters(), 0.01);
    auto [model, optimizer, later] = accelerator.prepare(net, sgd, for_later);
    for (int step = 0; step < 5; ++step) {
      accelerator.backward(model->forward(torch::ones({1, 4})).sum());
      optimizer.step();
      optimizer.zero_grad();
    }
  });
  EXPECT_TRUE(has_checkpoint(scratch.path(), "04")) << "before that, the other optimizer might still step";
}

TEST(TrainingLoop, ResumesTheEvaluationOrderAfterOneLeftEarly) {
  const TemporaryFolder scratch;
  run_ranks(1, [&](const WorldPtr& world) {
    const auto first_of = [](DataLoader<Rows>& loader) { return (*loader.begin()).target.clone(); };
    Accelerator accelerator({}, world);
    auto validation = accelerator.prepare(rows(16));
    first_of(validation);
    EXPECT_TRUE(accelerator.save_state(scratch.path() / "state"));
    const at::Tensor expected = first_of(validation);
    Accelerator resumed({}, world);
    auto again = resumed.prepare(rows(16));
    resumed.load_state(scratch.path() / "state");
    EXPECT_TRUE(first_of(again).equal(expected));
  });
}

struct Interrupted {};

struct EpochLoop {
  int epochs = 3;
  bool asks = false;         // loader.epoch()
  bool names = false;        // set_epoch(epoch)
  bool counts = false;       // registers its count of epochs
  std::int64_t stop_at = 0;  // step, 0: none
  bool ends = true;          // with end_training()
  int ranks = 2;
  std::function<void(DataLoader<Rows>&, LinearImpl&)> before = {}, first = {}, at_batch = {}, inside = {},
                                                      behind = {};  // called after each epoch
  bool keeps_iterator = false;  // keeps an iterator of the training loader
};

struct EpochEnd {
  std::int64_t steps = 0;
  double rate = 0;
  at::Tensor weight;
};

/// A program with four batches per epoch that evaluates and changes its learning rate after each epoch.
EpochEnd run_program(const RunConfig& config, const EpochLoop& loop) {
  EpochEnd end;
  torch::manual_seed(1);
  run_ranks(loop.ranks, [&](const WorldPtr& world) {
    Accelerator accelerator(config, world);
    auto net = linear();
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    const auto samples = static_cast<std::size_t>(8 * loop.ranks);
    auto [model, optimizer, training, validation] =
        accelerator.prepare(net, sgd, rows(samples), rows(samples / 2));
    double rate = 0.1;
    int epoch = 0;
    accelerator.register_for_checkpointing("rate", rate);
    if (loop.counts) accelerator.register_for_checkpointing("epoch", epoch);
    if (loop.before) loop.before(training, *net);
    std::optional<DataLoader<Rows>::Iterator> kept;
    if (loop.keeps_iterator) kept = training.begin();
    if (loop.asks) epoch = static_cast<int>(training.epoch());
    try {
      for (; epoch < loop.epochs; ++epoch) {
        if (loop.names) training.set_epoch(epoch);
        if (loop.first) loop.first(training, *net);
        for (auto& batch : training) {
          if (loop.at_batch) loop.at_batch(training, *net);
          // With one rank only: rank threads share one random stream.
          if (loop.ranks == 1) batch.data += 0.01 * torch::rand_like(batch.data);
          accelerator.backward((model->forward(batch.data) - batch.target).pow(2).mean());
          if (loop.inside) loop.inside(training, *net);
          optimizer.step();
          optimizer.zero_grad();
          if (accelerator.steps_done() == loop.stop_at) throw Interrupted();
        }
        if (loop.behind) loop.behind(training, *net);
        for (auto& batch : validation) {
          const torch::NoGradGuard no_grad;
          rate *= 1 - 0.1 * model->forward(batch.data).abs().mean().item<double>();
          break;
        }
        rate /= 2;
        sgd.param_groups()[0].options().set_lr(rate);
      }
      if (loop.ends) accelerator.end_training();
    } catch (const Interrupted&) {
    }
    if (world->rank() == 0) end = {accelerator.steps_done(), rate, net->weight.detach().clone()};
  });
  return end;
}

void expect_same(const EpochEnd& end, const EpochEnd& whole) {
  EXPECT_EQ(end.steps, whole.steps);
  EXPECT_EQ(end.rate, whole.rate);
  EXPECT_TRUE(end.weight.equal(whole.weight));
}

TEST(TrainingLoop, ResumesExactlyInTheSimplestLoop) {
  for (const EpochLoop& loop :
       {EpochLoop{}, EpochLoop{.asks = true}, EpochLoop{.names = true}, EpochLoop{.counts = true}}) {
    for (const std::int64_t stop_at : {3, 8, 9, 11}) {
      SCOPED_TRACE("asks " + std::to_string(loop.asks) + ", names " + std::to_string(loop.names) +
                   ", counts " + std::to_string(loop.counts) + ", stopped at " + std::to_string(stop_at));
      const EpochEnd whole = run_program({}, loop);
      EXPECT_EQ(whole.steps, 12);
      const TemporaryFolder scratch;
      RunConfig config = saving(scratch.path(), 2);
      EpochLoop stopped = loop;
      stopped.stop_at = stop_at;
      run_program(config, stopped);
      config.training.resume = "auto";
      const Messages messages;
      expect_same(run_program(config, loop), whole);
      const bool skips = !loop.asks && !loop.counts && stop_at > 4;
      EXPECT_EQ(messages.text().find("get no batch") != std::string::npos, skips) << messages.text();
    }
  }
}

TEST(TrainingLoop, SaysThatAProgramNoLongerAsksForItsEpoch) {
  const TemporaryFolder scratch;
  RunConfig config = saving(scratch.path(), 2);
  run_program(config, {.asks = true, .stop_at = 7});
  config.training.resume = "auto";
  const Messages messages;
  run_program(config, {});
  EXPECT_THAT(
      messages.text(),
      HasSubstr(
          "hookline: warning: the program that saved the checkpoint had called loader.epoch() before it "
          "trained, and this one has not: if its loop over epochs begins at 0, it trains epochs again: "
          "begin the loop over epochs at loader.epoch(), for (auto epoch = loader.epoch(); …)\n"));
}

void look_at_batch(DataLoader<Rows>& training, LinearImpl& net) {
  EXPECT_EQ(net.forward((*training.begin()).data + torch::rand({2, 4})).size(0), 2);
}

void look_twice(DataLoader<Rows>& training, LinearImpl& net) {
  look_at_batch(training, net);
  look_at_batch(training, net);
}

void keep_iterator(DataLoader<Rows>& training, LinearImpl& net) {
  auto batch = training.begin();
  EXPECT_EQ(net.forward(batch->data).size(0), 2);
  ++batch;
}

void measure_all(DataLoader<Rows>& training, LinearImpl& net) {
  const torch::NoGradGuard no_grad;
  for (auto& batch : training) net.forward(batch.data);
}

void measure_all_with_guard_inside(DataLoader<Rows>& training, LinearImpl& net) {
  for (auto& batch : training) {
    const torch::NoGradGuard no_grad;
    net.forward(batch.data);
  }
}

void expect_same_after_resuming(EpochLoop loop) {
  loop.ranks = 1;
  const EpochEnd whole = run_program({}, loop);
  EXPECT_EQ(whole.steps, 12);
  for (const std::int64_t stop_at : {3, 8, 9, 11}) {
    SCOPED_TRACE("stopped at " + std::to_string(stop_at));
    const TemporaryFolder scratch;
    RunConfig config = saving(scratch.path(), 2);
    EpochLoop stopped = loop;
    stopped.stop_at = stop_at;
    run_program(config, stopped);
    config.training.resume = "auto";
    stopped.stop_at = std::min<std::int64_t>(stop_at + 2, 12);
    run_program(config, stopped);
    expect_same(run_program(config, loop), whole);
  }
}

TEST(TrainingLoop, ResumesExactlyIfItReadsTheEpochAfterEach) {
  const auto say = [](DataLoader<Rows>& training, LinearImpl&) { EXPECT_GE(training.epoch(), 0); };
  expect_same_after_resuming({.behind = say});
  expect_same_after_resuming({.asks = true, .behind = say});
}

TEST(TrainingLoop, ResumesExactlyAfterPeekingAtABatch) {
  expect_same_after_resuming({.asks = true, .before = look_at_batch});
  expect_same_after_resuming({.asks = true, .before = look_twice});
  expect_same_after_resuming({.asks = true, .before = keep_iterator});
  expect_same_after_resuming({.asks = true, .behind = look_at_batch});
  expect_same_after_resuming({.asks = true, .inside = look_at_batch});
}

TEST(TrainingLoop, HasAllItsEpochsAfterAnyNumberOfLooksAtABatch) {
  for (const auto& look : {look_at_batch, look_twice})
    EXPECT_EQ(run_program({}, {.asks = true, .before = look}).steps, 12);
}

TEST(TrainingLoop, ResumesExactlyDespiteAKeptTrainingIterator) {
  expect_same_after_resuming({.keeps_iterator = true});
  expect_same_after_resuming({.asks = true, .keeps_iterator = true});
}

TEST(TrainingLoop, ResumesExactlyIfItMeasuresOnTheTrainingSamples) {
  for (const auto& measure : {measure_all, measure_all_with_guard_inside}) {
    expect_same_after_resuming({.behind = measure});
    expect_same_after_resuming({.counts = true, .behind = measure});
    expect_same_after_resuming({.asks = true, .behind = measure});
    expect_same_after_resuming({.inside = measure});
    expect_same_after_resuming({.asks = true, .inside = measure});
    expect_same_after_resuming({.asks = true, .before = measure});
    expect_same_after_resuming({.asks = true, .first = measure});
    expect_same_after_resuming({.at_batch = measure});
    expect_same_after_resuming({.asks = true, .at_batch = measure});
  }
}

using Step = std::function<void(const at::Tensor& data, const at::Tensor& target)>;

/// The final weight of one rank after `loop`, with four batches per epoch.
at::Tensor trained_by(const RunConfig& config,
                      const std::function<void(Accelerator&, DataLoader<Rows>&, const Step&)>& loop) {
  at::Tensor weight;
  run_ranks(1, [&](const WorldPtr& world) {
    Accelerator accelerator(config, world);
    auto net = linear();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto [model, optimizer, training] = accelerator.prepare(net, sgd, rows(8));
    try {
      loop(accelerator, training,
           [&, &model = model, &optimizer = optimizer](const at::Tensor& data, const at::Tensor& target) {
             accelerator.backward((model->forward(data) - target).pow(2).mean());
             optimizer.step();
             optimizer.zero_grad();
           });
    } catch (const Interrupted&) {
    }
    weight = net->weight.detach().clone();
  });
  return weight;
}

TEST(TrainingLoop, ResumesExactlyWithTwoLoadersInOneLoop) {
  const TemporaryFolder scratch;
  const auto run = [](const RunConfig& config, std::int64_t stop_at) {
    return trained_by(config, [&](Accelerator& accelerator, DataLoader<Rows>& first, const Step& step) {
      auto second = accelerator.prepare(rows(8));
      for (std::int64_t epoch = first.epoch(); epoch < 3; ++epoch) {
        auto other = second.begin();
        for (auto& batch : first) {
          step(batch.data + other->data, batch.target);
          if (accelerator.steps_done() == stop_at) throw Interrupted();
          ++other;
        }
      }
      EXPECT_EQ(accelerator.steps_done(), 12);
    });
  };
  const at::Tensor expected = run({}, 0);
  RunConfig config = saving(scratch.path(), 2);
  run(config, 7);
  config.training.resume = "auto";
  EXPECT_TRUE(run(config, 0).equal(expected));
}

TEST(TrainingLoop, ResumesTwiceWithARestartedIterator) {
  const TemporaryFolder scratch;
  const auto run = [](const RunConfig& config, std::int64_t stop_at) {
    return trained_by(config, [&](Accelerator& accelerator, DataLoader<Rows>& training, const Step& step) {
      auto batch = training.begin();
      while (accelerator.steps_done() < stop_at) {
        step(batch->data, batch->target);
        ++batch;
        if (batch == training.end()) batch = training.begin();
      }
    });
  };
  const at::Tensor expected = run({}, 20);
  RunConfig config = saving(scratch.path(), 2);
  run(config, 7);
  config.training.resume = "auto";
  run(config, 10);
  run(config, 13);
  EXPECT_TRUE(run(config, 20).equal(expected));
}

TEST(TrainingLoop, ResumesWithTheBatchInHandWhenItEnded) {
  const TemporaryFolder scratch;
  const auto run = [](const RunConfig& config, std::int64_t steps) {
    return trained_by(config, [&](Accelerator& accelerator, DataLoader<Rows>& training, const Step& step) {
      for (std::int64_t epoch = training.epoch(); epoch < 3; ++epoch) {
        for (auto& batch : training) {
          if (accelerator.steps_done() == steps) break;
          step(batch.data, batch.target);
        }
        if (accelerator.steps_done() == steps) break;
      }
      accelerator.end_training();
      EXPECT_EQ(accelerator.steps_done(), steps);
    });
  };
  const at::Tensor expected = run({}, 12);
  RunConfig config = saving(scratch.path(), 100);
  run(config, 6);
  config.training.resume = "auto";
  EXPECT_TRUE(run(config, 12).equal(expected));
}

TEST(TrainingLoop, TrainsNoFurtherAfterLoopsThatWereLeftEarly) {
  const TemporaryFolder scratch;
  const auto run = [](const RunConfig& config) {
    return trained_by(config, [&](Accelerator& accelerator, DataLoader<Rows>& training, const Step& step) {
      for (std::int64_t epoch = training.epoch(); epoch < 3; ++epoch) {
        int batches = 0;
        for (auto& batch : training) {
          step(batch.data, batch.target);
          if (++batches == 3) break;
        }
      }
      accelerator.end_training();
      EXPECT_EQ(accelerator.steps_done(), 9);
    });
  };
  RunConfig config = saving(scratch.path(), 100);
  const at::Tensor weight = run(config);
  config.training.resume = "auto";
  EXPECT_TRUE(run(config).equal(weight));
}

TEST(TrainingLoop, AdvancesTheEpochWithoutAPreparedModel) {
  run_ranks(1, [](const WorldPtr& world) {
    Accelerator accelerator({}, world);
    auto training = accelerator.prepare(rows(16));
    std::vector<std::int64_t> epochs;
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (auto& batch : training) {
        if (training.at_last_batch()) epochs.push_back(training.epoch());
        EXPECT_EQ(batch.data.size(0), 2);
      }
    }
    EXPECT_THAT(epochs, ElementsAre(0, 1, 2));
  });
}

TEST(TrainingLoop, ResumesExactlyWithAModelMadeAfterPeekingAtABatch) {
  const TemporaryFolder scratch;
  const auto run = [&](const RunConfig& config, std::int64_t steps) {
    at::Tensor weight;
    run_ranks(1, [&](const WorldPtr& world) {
      Accelerator accelerator(config, world);
      auto training = accelerator.prepare(rows(8));
      std::int64_t epoch = training.epoch();
      EXPECT_EQ((*training.begin()).data.size(1), 4);
      auto net = linear();
      torch::optim::SGD sgd(net->parameters(), 0.1);
      auto [model, optimizer] = accelerator.prepare(net, sgd);
      for (; epoch < 3 && accelerator.steps_done() < steps; ++epoch)
        for (auto& batch : training) {
          accelerator.backward((model->forward(batch.data) - batch.target).pow(2).mean());
          optimizer.step();
          optimizer.zero_grad();
          if (accelerator.steps_done() == steps) break;
        }
      weight = net->weight.detach().clone();
    });
    return weight;
  };
  const at::Tensor expected = run({}, 12);
  RunConfig config = saving(scratch.path(), 2);
  run(config, 7);
  config.training.resume = "auto";
  EXPECT_TRUE(run(config, 12).equal(expected));
}

TEST(TrainingLoop, AccumulatesAcrossAMeasurementOnTheTrainingSamples) {
  run_ranks(1, [](const WorldPtr& world) {
    Accelerator accelerator(accumulating(4), world);
    auto [model, training] = accelerator.prepare(linear(), rows(12));
    std::vector<bool> communicated;
    for (auto& batch : training) {
      accelerator.accumulate(model, [&, &model = model] {
        communicated.push_back(accelerator.sync_gradients());
        accelerator.backward(model->forward(batch.data).sum());
      });
      const torch::NoGradGuard no_grad;
      for (auto& sample : training) model->forward(sample.data);
    }
    EXPECT_THAT(communicated, ElementsAre(false, false, false, true, false, true));
    EXPECT_EQ(training.epoch(), 1) << "the next";
  });
}

/// Trains six steps on each batch.
at::Tensor train_six_steps_a_batch(const RunConfig& config, std::int64_t stop_at) {
  return trained_by(config, [&](Accelerator& accelerator, DataLoader<Rows>& training, const Step& step) {
    for (auto& batch : training) {
      for (int i = 0; i < 6; ++i) {
        step(batch.data, batch.target);
        if (accelerator.steps_done() == stop_at) throw Interrupted();
      }
    }
    EXPECT_EQ(accelerator.steps_done(), 24);
    accelerator.end_training();
  });
}

TEST(TrainingLoop, SavesBetweenBatchesWithSeveralStepsOnEach) {
  const TemporaryFolder scratch;
  const Messages messages;
  const at::Tensor expected = train_six_steps_a_batch({}, 0);
  RunConfig config = saving(scratch.path(), 5);
  train_six_steps_a_batch(config, 7);
  EXPECT_TRUE(has_checkpoint(scratch.path(), "06")) << "due at step 5";
  config.training.resume = "auto";
  EXPECT_TRUE(train_six_steps_a_batch(config, 0).equal(expected));
  EXPECT_THAT(messages.text(), Not(HasSubstr("in hand"))) << messages.text();
}

TEST(TrainingLoop, SaysThatACheckpointIsSavedWithABatchInHand) {
  const TemporaryFolder scratch;
  const Messages messages;
  train_six_steps_a_batch(saving(scratch.path(), 2), 0);
  const std::string text = messages.text();
  EXPECT_THAT(
      text,
      HasSubstr(
          "hookline: warning: the checkpoint of step 4 is saved while a batch of a prepared loader is in "
          "hand: "
          "if the program takes more steps on that batch, a run that resumes continues with the next one; "
          "save "
          "less often than once in a batch, with a larger checkpoint_every_steps\n"));
  EXPECT_EQ(text.find("in hand"), text.rfind("in hand")) << text;
}

TEST(TrainingLoop, SaysThatLoopsGetNoBatches) {
  const TemporaryFolder scratch;
  RunConfig config = saving(scratch.path(), 2);
  run_program(config, {.stop_at = 7});
  config.training.resume = "auto";
  const Messages messages;
  run_program(config, {});
  EXPECT_THAT(
      messages.text(),
      HasSubstr("hookline: the program has not called loader.epoch(): the loops that were done before the "
                "run resumed (1 loop over the training loader) get no batch; to leave them out: begin the "
                "loop over epochs at loader.epoch(), for (auto epoch = loader.epoch(); …)\n"));
}

TEST(TrainingLoop, SavesItsEndAndTrainsNoFurtherWhenRelaunched) {
  for (const bool asks : {true, false}) {
    const TemporaryFolder scratch;
    RunConfig config = saving(scratch.path(), 1000);
    const EpochEnd first = run_program(config, {.asks = asks});
    EXPECT_TRUE(has_checkpoint(scratch.path(), "12"));
    config.training.resume = "auto";
    const Messages messages;
    const EpochEnd second = run_program(config, {.asks = asks});
    EXPECT_EQ(second.steps, 12);
    EXPECT_TRUE(second.weight.equal(first.weight));
    EXPECT_THAT(messages.text(), Not(HasSubstr("warning"))) << messages.text();
    expect_same(run_program(config, {.epochs = 4, .asks = true}), run_program({}, {.epochs = 4}));
  }
}

TEST(TrainingLoop, WarnsOfACheckpointThatWasNotSaved) {
  const TemporaryFolder scratch;
  {
    const Messages messages;
    run_program(saving(scratch.path(), 1000), {.ends = false});
    EXPECT_THAT(
        messages.text(),
        HasSubstr(
            "hookline: warning: checkpoint_every_steps is 1000, but the run has saved no checkpoint: it "
            "took 12 steps, too few to reach the next checkpoint, and the program did not call "
            "accelerator.end_training(), which saves the end\n"));
  }
  {
    const Messages messages;
    run_program(saving(scratch.path(), 12), {.ends = false});
    EXPECT_THAT(
        messages.text(),
        HasSubstr("hookline: warning: the checkpoint due at step 12 was not saved: the program ended before "
                  "its loader's next batch, and without accelerator.end_training(), which saves the end; "
                  "call it after the training loop\n"));
  }
  {
    const Messages messages;
    run_program(saving(scratch.path(), 6), {});
    EXPECT_THAT(messages.text(), Not(HasSubstr("warning")));
  }
}

TEST(TrainingLoop, SaysThatNoStepOfAPreparedOptimizerIsSeen) {
  const TemporaryFolder scratch;
  const Messages messages;
  run_ranks(2, [&](const WorldPtr& world) {
    Accelerator accelerator(saving(scratch.path(), 2), world);
    auto net = linear();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto model = accelerator.prepare(net);
    for (int step = 0; step < 104; ++step) {
      accelerator.backward(model->forward(torch::ones({1, 4})).sum());
      sgd.step();
      sgd.zero_grad();
    }
  });
  EXPECT_THAT(
      messages.text(),
      HasSubstr(
          "hookline: warning: no checkpoint can be saved: backward() has run 104 times, but no optimizer "
          "that prepare() returned has made a step, and checkpoints are saved between their steps; call "
          "step() of the prepared optimizer\n"));
  EXPECT_THAT(
      messages.text(),
      HasSubstr(" has saved no checkpoint: no optimizer that prepare() returned has made a step; call "
                "step() of the prepared optimizer\n"));
}

TEST(TrainingLoop, WarnsOnceOfABatchThatHoldsSamplesTwice) {
  using Evaluation = std::function<void(Accelerator&, DataLoader<Rows>&)>;
  const auto messages_of = [](std::size_t samples, const Evaluation& evaluate) {
    const Messages messages;
    run_ranks(3, [&](const WorldPtr& world) {
      Accelerator accelerator({}, world);
      auto validation = accelerator.prepare(rows(samples));
      for (int epoch = 0; epoch < 2; ++epoch) evaluate(accelerator, validation);
    });
    return messages.text();
  };
  const auto warns_once_of = [](const std::string& call) {
    return ::testing::MatchesRegex("hookline: warning: " + call + ": the loader repeats 1 sample [^\n]*\n");
  };
  const Evaluation gathers = [](Accelerator& accelerator, DataLoader<Rows>& validation) {
    for (auto& batch : validation) accelerator.gather(batch.target);
  };
  const Evaluation gathers_behind = [](Accelerator& accelerator, DataLoader<Rows>& validation) {
    std::vector<at::Tensor> all;
    for (auto& batch : validation) all.push_back(batch.target);
    accelerator.gather(torch::cat(all));
  };
  const Evaluation adds = [](Accelerator& accelerator, DataLoader<Rows>& validation) {
    for (auto& batch : validation) accelerator.reduce(batch.target.sum());
  };
  const Evaluation adds_behind = [](Accelerator& accelerator, DataLoader<Rows>& validation) {
    std::int64_t count = 0;
    for (auto& batch : validation) count += batch.data.size(0);
    accelerator.reduce(torch::tensor(count));
  };
  for (const auto& evaluate : {gathers, gathers_behind, adds, adds_behind})
    EXPECT_EQ(messages_of(12, evaluate), "");
  EXPECT_THAT(messages_of(11, gathers), warns_once_of("gather"));
  EXPECT_THAT(messages_of(11, gathers_behind), warns_once_of("gather"));
  EXPECT_THAT(messages_of(11, adds), warns_once_of("reduce"));
  EXPECT_THAT(messages_of(11, adds_behind), warns_once_of("reduce"));
  const Evaluation trains = [](Accelerator& accelerator, DataLoader<Rows>& training) {
    const at::Tensor weight = torch::ones({2}, torch::requires_grad());
    for (auto& batch : training) {
      const at::Tensor loss = (batch.target * weight).sum();
      accelerator.backward(loss);
      accelerator.reduce(loss, "mean");
    }
    accelerator.reduce(weight);
  };
  EXPECT_EQ(messages_of(11, trains), "");
  EXPECT_THAT(messages_of(10, adds),
              AllOf(HasSubstr("repeats 2 samples "), HasSubstr("each of the last 2 ranks is a repeat")));
}

}  // namespace
}  // namespace hookline
