// A run with a sharded optimizer resumes from its own checkpoints, from those of another number of ranks, and
// from runs whose optimizer or model was not sharded, or sharded differently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "parallel/hookline.h"
#include "parallel/tensors/safetensors.h"
#include "tests/support/failure.h"
#include "tests/support/logged_messages.h"
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

struct Waves : torch::data::datasets::Dataset<Waves> {
  torch::data::Example<> get(std::size_t index) override {
    const auto i = static_cast<float>(index);
    return {torch::sin(torch::arange(6).to(torch::kFloat) * (i + 1)), torch::cos(torch::arange(3) + i)};
  }
  torch::optional<std::size_t> size() const override { return 24; }
};

struct NetImpl : torch::nn::Module {
  NetImpl() {
    wide = register_module("wide", torch::nn::Linear(6, 13));
    norm = register_module("norm", torch::nn::BatchNorm1d(13));
    deep = register_module("deep", FsdpUnit<torch::nn::Linear>(13, 13));
    head = register_module("head", torch::nn::Linear(13, 3));
    std::int64_t seed = 0;
    const torch::NoGradGuard no_grad;
    for (auto& parameter : parameters())
      parameter.copy_(torch::sin(torch::arange(parameter.numel()) * 0.7 + ++seed).view(parameter.sizes()) *
                      0.4);
  }
  at::Tensor forward(const at::Tensor& x) {
    return head->forward(torch::tanh(deep->forward(norm->forward(wide->forward(x)))));
  }
  torch::nn::Linear wide{nullptr}, head{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  FsdpUnit<torch::nn::Linear> deep{nullptr};
};
TORCH_MODULE(Net);

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

std::unique_ptr<torch::optim::Optimizer> momentum(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                             torch::optim::SGDOptions(0.05).momentum(0.9));
}
std::unique_ptr<torch::optim::Optimizer> adamw(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::AdamW>(std::move(parameters),
                                               torch::optim::AdamWOptions(0.01).amsgrad(true));
}

enum class Shards { none, optimizer, model };

struct Job {
  Shards shards = Shards::optimizer;
  int ranks = 2;
  MakeOptimizer optimizer = adamw;
  std::int64_t accumulated = 1;
  bool optimizer_first = false;
  bool zeroes = true;  // clears gradients after each step
};

/// Trains from batch `first` up to (excluding) `last`; resumes from `from`, if given, by [training] resume or
/// load_state.
at::Tensor train(const Job& job, std::int64_t first, std::int64_t last, const std::string& from = "",
                 const std::string& to = "", bool by_config = false) {
  at::Tensor result;
  run_ranks(job.ranks, [&](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.ddp.shard_optimizer = job.shards == Shards::optimizer;
    if (job.shards == Shards::model) config.fsdp.sharding_strategy = "full_shard";
    config.training.gradient_accumulation_steps = job.accumulated;
    if (by_config) config.training.resume = from;
    Accelerator accelerator(config, world);
    Net net;
    const auto bare = job.optimizer(net->parameters());
    const auto run = [&](auto& model, auto& optimizer, auto& loader) {
      if (!from.empty() && !by_config) accelerator.load_state(from);
      for (std::int64_t number = first; number < last;) {
        for (auto& batch : loader) {
          accelerator.accumulate(model, [&] {
            accelerator.backward((model->forward(batch.data) - batch.target).pow(2).mean());
            optimizer.step();
            if (job.zeroes) optimizer.zero_grad();
          });
          if (++number == last) break;
        }
      }
      if (!to.empty()) {
        EXPECT_TRUE(accelerator.save_state(to));
      }
      std::vector<at::Tensor> parts;
      model.summon_full_params([&] {
        for (const auto& parameter : net->parameters()) parts.push_back(parameter.detach().flatten().clone());
      });
      for (const auto& buffer : net->buffers()) parts.push_back(buffer.flatten().to(torch::kFloat));
      if (world->rank() == 0) result = torch::cat(parts);
    };
    if (job.optimizer_first) {
      auto [optimizer, model, loader] =
          accelerator.prepare(*bare, net, data_loader(Waves(), {.batch_size = 2}));
      run(model, optimizer, loader);
    } else {
      auto [model, optimizer, loader] =
          accelerator.prepare(net, *bare, data_loader(Waves(), {.batch_size = 2}));
      run(model, optimizer, loader);
    }
  });
  return result;
}

TEST(OptimizerShardsResume, MatchesAnUninterruptedRunBitForBit) {
  const TemporaryFolder folder;
  int number = 0;
  for (const int ranks : {2, 3}) {
    for (const MakeOptimizer& optimizer : {MakeOptimizer(momentum), MakeOptimizer(adamw)}) {
      for (const bool optimizer_first : {false, true}) {
        const Job job{Shards::optimizer, ranks, optimizer, 1, optimizer_first};
        const std::string saved = (folder.path() / std::to_string(number++)).string();
        const at::Tensor whole = train(job, 0, 9);
        const Messages messages;
        train(job, 0, 5, "", saved);
        EXPECT_TRUE(train(job, 5, 9, saved).equal(whole)) << ranks << " ranks, checkpoint " << saved;
        EXPECT_TRUE(train(job, 5, 9, saved, "", /*by_config=*/true).equal(whole))
            << ranks << " ranks, by [training] resume";
        EXPECT_THAT(messages.text(), Not(HasSubstr("warning")));
      }
    }
  }
}

TEST(OptimizerShardsResume, WritesTheFilesOfAnUnshardedRun) {
  const TemporaryFolder folder;
  const std::string sharded = (folder.path() / "sharded").string(),
                    whole = (folder.path() / "whole").string();
  train({Shards::optimizer, 3}, 0, 5, "", sharded);
  train({Shards::none, 3}, 0, 5, "", whole);
  for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
    const NamedTensors one = read_safetensors(sharded + "/" + file),
                       other = read_safetensors(whole + "/" + file);
    ASSERT_EQ(one.size(), other.size()) << file;
    for (const auto& [name, tensor] : one) {
      ASSERT_TRUE(other.contains(name)) << name;
      EXPECT_TRUE(tensor.equal(other.at(name))) << file << ": " << name;
    }
  }
}

TEST(OptimizerShardsResume, ResumesFromAndToAnUnshardedRun) {
  const TemporaryFolder folder;
  const std::string whole = (folder.path() / "whole").string(),
                    sharded = (folder.path() / "sharded").string();
  for (const MakeOptimizer& optimizer : {MakeOptimizer(momentum), MakeOptimizer(adamw)}) {
    const Job of_ddp{Shards::none, 2, optimizer}, of_shards{Shards::optimizer, 2, optimizer},
        of_model{Shards::model, 2, optimizer};
    const at::Tensor expected = train(of_ddp, 0, 8);
    train(of_ddp, 0, 4, "", whole);
    train(of_shards, 0, 4, "", sharded);
    const Messages messages;
    EXPECT_TRUE(train(of_shards, 4, 8, whole).equal(expected)) << "of DDP";
    EXPECT_TRUE(train(of_ddp, 4, 8, sharded).equal(expected)) << "to DDP";
    EXPECT_TRUE(train({Shards::optimizer, 2, optimizer, 1, true}, 4, 8, whole, "", true).equal(expected))
        << "optimizer first";
    EXPECT_THAT(messages.text(), Not(HasSubstr("warning"))) << "nothing is left out";
    EXPECT_TRUE(train(of_model, 4, 8, sharded).equal(expected)) << "to a sharded model";
    std::filesystem::remove_all(whole);
    std::filesystem::remove_all(sharded);
  }
}

TEST(OptimizerShardsResume, ResumesOnAnotherNumberOfRanks) {
  const TemporaryFolder folder;
  const std::string two = (folder.path() / "two").string(), three = (folder.path() / "three").string();
  train({Shards::optimizer, 2, momentum}, 0, 4, "", two);
  const Job of_three{Shards::optimizer, 3, momentum};
  EXPECT_TRUE(train(of_three, 4, 8, two, three).equal(train({Shards::none, 3, momentum}, 4, 8, two)));
  EXPECT_TRUE(train({Shards::optimizer, 1, momentum}, 8, 10, three)
                  .equal(train({Shards::none, 1, momentum}, 8, 10, three)));
}

TEST(OptimizerShardsResume, KeepsAccumulatedGradients) {
  const TemporaryFolder folder;
  const std::string saved = (folder.path() / "saved").string();
  const Job job{Shards::optimizer, 2, adamw, 3};
  const at::Tensor whole = train(job, 0, 12);
  train(job, 0, 5, "", saved);
  EXPECT_TRUE(train(job, 5, 12, saved).equal(whole));
  EXPECT_TRUE(train({Shards::none, 2, adamw, 3}, 5, 12, saved).equal(whole)) << "by DDP";
}

TEST(OptimizerShardsResume, KeepsAveragesThatAProgramAddsTo) {
  const TemporaryFolder folder;
  const std::string saved = (folder.path() / "saved").string();
  const Job job{Shards::optimizer, 2, momentum, 2, false, /*zeroes=*/false};
  const at::Tensor whole = train(job, 0, 8);
  EXPECT_LT((train({Shards::none, 2, momentum, 2, false, false}, 0, 8) - whole).abs().max().item<double>(),
            1e-5);
  train(job, 0, 3, "", saved);  // between two steps, with averaged gradients kept
  EXPECT_LT((train(job, 3, 8, saved) - whole).abs().max().item<double>(), 1e-5);
}

TEST(OptimizerShardsResume, ReportsStepsOfTheUnpreparedOptimizer) {
  const TemporaryFolder folder;
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.ddp.shard_optimizer = true;
    Accelerator accelerator(config, world);
    torch::nn::Linear net(6, 2);
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    accelerator.backward(model->forward(torch::ones({1, 6})).sum());
    sgd.step();
    EXPECT_EQ(
        failure_of([&] { accelerator.save_state(folder.path() / "saved"); }),
        "the optimizer keeps 12 elements beside 'weight', of which this rank steps 6: call step() on what "
        "prepare() returned, not on the optimizer that was passed to it");
  });
}

}  // namespace
}  // namespace hookline
