// A run with a sharded optimizer resumes from its own checkpoints, from those of another number of ranks, and
// from runs whose optimizer or model was not sharded, or sharded differently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "parallel/hookline.h"
#include "parallel/tensors/safetensors.h"
#include "tests/parallel/resume/waves_training.h"
#include "tests/support/failure.h"
#include "tests/support/logged_messages.h"
#include "tests/support/process.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::adamw;
using testing::failure_of;
using ::testing::HasSubstr;
using testing::Job;
using testing::MakeOptimizer;
using testing::Messages;
using testing::momentum;
using ::testing::Not;
using testing::run_ranks;
using testing::Shards;
using testing::TemporaryFolder;
using testing::train;

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
        "the optimizer's state of 'weight' has 12 elements, but this rank's share of the parameter has 6: "
        "call step() on what prepare() returned, not on the optimizer that was passed to it");
  });
}

}  // namespace
}  // namespace hookline
