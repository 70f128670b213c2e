// Where a program is in its training, as accumulation and checkpoints see it: which loop trains, and which only looks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hooks/log.h"
#include "parallel/accelerator.h"
#include "tests/support/failure.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::failure_of;
using ::testing::HasSubstr;
using testing::Messages;
using ::testing::Not;
using testing::run_ranks;
using testing::TemporaryFolder;
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

// --- accumulation ---------------------------------------------------------------------------------------------------

/// In which of eight batches gradients are communicated, four to a step; `look` runs before each.
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

TEST(TrainingLoop, AccumulatesPastAnEvaluationThatIsLeftAtItsLastBatch) {
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

TEST(TrainingLoop, AccumulatesPastAnIteratorThatIsKept) {
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

TEST(TrainingLoop, AccumulatesPastAShorterLoaderThatItDrawsFrom) {
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

TEST(TrainingLoop, StepsAfterResumingInAGroupOfMoreSteps) {
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

// --- checkpoints ----------------------------------------------------------------------------------------------------

TEST(TrainingLoop, SavesWhatIsDueThoughAnIteratorOfAnotherLoaderIsKept) {
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

TEST(TrainingLoop, SavesWhatIsDueThoughTheLastOptimizerDoesNotStep) {
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
  EXPECT_TRUE(has_checkpoint(scratch.path(), "02"));
  EXPECT_TRUE(has_checkpoint(scratch.path(), "04"));
}

TEST(TrainingLoop, EvaluatesOnNewSamplesAfterOneThatWasLeft) {
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

struct Loop {
  int epochs = 3;
  bool asks = false;         // loader.epoch()
  bool names = false;        // set_epoch(epoch)
  bool counts = false;       // registers its count of epochs
  std::int64_t stop_at = 0;  // step, 0: none
  bool ends = true;          // with end_training()
};

struct End {
  std::int64_t steps = 0;
  double rate = 0;
  at::Tensor weight;
};

/// A program of four batches an epoch, that evaluates and changes its rate behind each.
End run_program(const RunConfig& config, const Loop& loop) {
  End end;
  run_ranks(2, [&](const WorldPtr& world) {
    Accelerator accelerator(config, world);
    auto net = linear();
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    auto [model, optimizer, training, validation] = accelerator.prepare(net, sgd, rows(16), rows(8));
    double rate = 0.1;
    int epoch = 0;
    accelerator.register_for_checkpointing("rate", rate);
    if (loop.counts) accelerator.register_for_checkpointing("epoch", epoch);
    if (loop.asks) epoch = static_cast<int>(training.epoch());
    try {
      for (; epoch < loop.epochs; ++epoch) {
        if (loop.names) training.set_epoch(epoch);
        for (auto& batch : training) {
          accelerator.backward((model->forward(batch.data) - batch.target).pow(2).mean());
          optimizer.step();
          optimizer.zero_grad();
          if (accelerator.steps_done() == loop.stop_at) throw Interrupted();
        }
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

void expect_same(const End& end, const End& whole) {
  EXPECT_EQ(end.steps, whole.steps);
  EXPECT_EQ(end.rate, whole.rate);
  EXPECT_TRUE(end.weight.equal(whole.weight));
}

TEST(TrainingLoop, ResumesRightInTheSimplestLoop) {
  for (const Loop& loop : {Loop{}, Loop{.asks = true}, Loop{.names = true}, Loop{.counts = true}}) {
    for (const std::int64_t stop_at : {3, 8, 9, 11}) {
      SCOPED_TRACE("asks " + std::to_string(loop.asks) + ", names " + std::to_string(loop.names) +
                   ", counts " + std::to_string(loop.counts) + ", stopped at " + std::to_string(stop_at));
      const End whole = run_program({}, loop);
      EXPECT_EQ(whole.steps, 12);
      const TemporaryFolder scratch;
      RunConfig config = saving(scratch.path(), 2);
      Loop stopped = loop;
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

TEST(TrainingLoop, SaysThatLoopsGetNoBatch) {
  const TemporaryFolder scratch;
  RunConfig config = saving(scratch.path(), 2);
  run_program(config, {.stop_at = 7});
  config.training.resume = "auto";
  const Messages messages;
  run_program(config, {});
  EXPECT_THAT(
      messages.text(),
      HasSubstr("hookline: the program has not called loader.epoch(): its first 1 loop over the training "
                "loader, done before the run resumed, get no batch; to leave them out: begin the loop "
                "over epochs at loader.epoch(), for (auto epoch = loader.epoch(); …)\n"));
}

TEST(TrainingLoop, RefusesToLookAtABatchOfALoopThatIsDone) {
  const TemporaryFolder scratch;
  RunConfig config = saving(scratch.path(), 2);
  run_program(config, {.stop_at = 7});
  config.training.resume = "auto";
  run_ranks(2, [&](const WorldPtr& world) {
    Accelerator accelerator(config, world);
    auto training = accelerator.prepare(rows(16));
    EXPECT_EQ(
        failure_of([&] { (*training.begin()).data.size(0); }),
        "hookline::data_loader: this loop over the loader was done before the run resumed, so it has no "
        "batch to look at: call loader.epoch() before the first loop, and begin the loop over epochs there");
  });
}

TEST(TrainingLoop, SavesItsEndAndTrainsNoFurtherStepWhenItIsLaunchedAgain) {
  for (const bool asks : {true, false}) {
    const TemporaryFolder scratch;
    RunConfig config = saving(scratch.path(), 1000);
    const End first = run_program(config, {.asks = asks});
    EXPECT_TRUE(has_checkpoint(scratch.path(), "12"));
    config.training.resume = "auto";
    const Messages messages;
    const End second = run_program(config, {.asks = asks});
    EXPECT_EQ(second.steps, 12);
    EXPECT_TRUE(second.weight.equal(first.weight));
    EXPECT_THAT(messages.text(), Not(HasSubstr("warning"))) << messages.text();
    expect_same(run_program(config, {.epochs = 4, .asks = true}), run_program({}, {.epochs = 4}));
  }
}

TEST(TrainingLoop, RemindsOfACheckpointThatWasNotSaved) {
  const TemporaryFolder scratch;
  {
    const Messages messages;
    run_program(saving(scratch.path(), 1000), {.ends = false});
    EXPECT_THAT(
        messages.text(),
        HasSubstr(
            "hookline: warning: checkpoint_every_steps is 1000, but the run has saved no checkpoint: it "
            "took 12 steps, fewer than up to the next checkpoint, and the program did not call "
            "accelerator.end_training(), which saves the end\n"));
  }
  {
    const Messages messages;
    run_program(saving(scratch.path(), 12), {.ends = false});
    EXPECT_THAT(
        messages.text(),
        HasSubstr("hookline: warning: the checkpoint due at step 12 was not saved: the program ended before "
                  "its loader's next batch, and without accelerator.end_training(), which saves the end; "
                  "call it behind the training loop\n"));
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
    for (int step = 0; step < 3; ++step) {
      accelerator.backward(model->forward(torch::ones({1, 4})).sum());
      sgd.step();
      sgd.zero_grad();
    }
  });
  EXPECT_THAT(
      messages.text(),
      HasSubstr("hookline: warning: a checkpoint is due, since backward() has run 2 times, but it can't be "
                "saved: no optimizer that prepare() returned has made a step, and checkpoints are saved "
                "between their steps; call step() of the prepared optimizer\n"));
  EXPECT_THAT(messages.text(),
              HasSubstr("but the run has saved no checkpoint: no optimizer that prepare() "
                        "returned has made a step; call step() of the prepared optimizer\n"));
}

TEST(TrainingLoop, WarnsOnceOfABatchThatHoldsSamplesTwice) {
  const auto messages_of = [](std::size_t samples) {
    const Messages messages;
    run_ranks(3, [&](const WorldPtr& world) {
      Accelerator accelerator({}, world);
      auto validation = accelerator.prepare(rows(samples));
      for (int epoch = 0; epoch < 2; ++epoch)
        for (auto& batch : validation) accelerator.gather(batch.target);
    });
    return messages.text();
  };
  EXPECT_EQ(messages_of(12), "");
  EXPECT_EQ(
      messages_of(11),
      "hookline: warning: gather: of the last batch of an epoch, 1 sample is there twice, since the loader "
      "gives each rank as many; an average counts them twice. The last row of each of the last 1 ranks is "
      "one of them: leave those out, or make the loader with drop_last = true\n");
}

}  // namespace
}  // namespace hookline
