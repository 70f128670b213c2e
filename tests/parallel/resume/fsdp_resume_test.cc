// A sharded run resumes from its own checkpoints, from those of another number of ranks, and from unsharded
// runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "parallel/hookline.h"
#include "parallel/tensors/safetensors.h"
#include "tests/parallel/resume/waves_training.h"
#include "tests/support/failure.h"
#include "tests/support/process.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::adamw;
using testing::failure_of;
using ::testing::HasSubstr;
using testing::Job;
using testing::MakeOptimizer;
using testing::momentum;
using testing::run_ranks;
using testing::Shards;
using testing::TemporaryFolder;
using testing::train;

/// An optimizer that hookline does not know; keeps a decaying sum of the gradients.
class Own : public torch::optim::Optimizer {
 public:
  explicit Own(std::vector<at::Tensor> parameters)
      : Optimizer(std::move(parameters), std::make_unique<torch::optim::SGDOptions>(0.05)) {}
  at::Tensor step(LossClosure) override {
    const torch::NoGradGuard no_grad;
    std::vector<at::Tensor> all = param_groups()[0].params();
    kept.resize(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      kept[i] = kept[i].defined() ? kept[i] * 0.5 + all[i].grad() : all[i].grad().clone();
      all[i].sub_(kept[i] * 0.05);
    }
    return {};
  }
  void save(torch::serialize::OutputArchive& archive) const override {
    for (std::size_t i = 0; i < kept.size(); ++i) archive.write(std::to_string(i), kept[i]);
  }
  void load(torch::serialize::InputArchive& archive) override {
    kept.resize(param_groups()[0].params().size());
    for (std::size_t i = 0; i < kept.size(); ++i) archive.read(std::to_string(i), kept[i]);
  }
  std::vector<at::Tensor> kept;
};
std::unique_ptr<torch::optim::Optimizer> own(std::vector<at::Tensor> parameters) {
  return std::make_unique<Own>(std::move(parameters));
}

TEST(FsdpResume, MatchesAnUninterruptedRunBitForBit) {
  const TemporaryFolder folder;
  int number = 0;
  for (const int ranks : {1, 2, 3, 4}) {
    for (const MakeOptimizer& optimizer :
         {MakeOptimizer(momentum), MakeOptimizer(adamw), MakeOptimizer(own)}) {
      for (const bool optimizer_first : {false, true}) {
        Job job{Shards::model, ranks, optimizer, 1, optimizer_first};
        if (ranks == 3) job.strategy = "shard_grad_op";
        const std::string saved = (folder.path() / std::to_string(number++)).string();
        const at::Tensor whole = train(job, 0, 9);
        train(job, 0, 5, "", saved);
        EXPECT_TRUE(train(job, 5, 9, saved).equal(whole)) << ranks << " ranks, checkpoint " << saved;
        if (optimizer_first && number % 3 == 0) continue;
        EXPECT_TRUE(train(job, 5, 9, saved, "", /*by_config=*/true).equal(whole))
            << ranks << " ranks, by [training] resume";
      }
    }
  }
}

TEST(FsdpResume, KeepsAccumulatedGradients) {
  const TemporaryFolder folder;
  const std::string saved = (folder.path() / "saved").string();
  const Job job{Shards::model, 2, adamw, 3};
  const at::Tensor whole = train(job, 0, 12);
  train(job, 0, 5, "", saved);
  EXPECT_TRUE(train(job, 5, 12, saved).equal(whole));
  Job by_ddp = job;
  by_ddp.shards = Shards::none;
  EXPECT_TRUE(train(by_ddp, 5, 12, saved).equal(whole)) << "by DDP";
}

TEST(FsdpResume, StoresWholeTensorsOnceForAnyReader) {
  const TemporaryFolder folder;
  const std::string sharded = (folder.path() / "sharded").string(),
                    whole = (folder.path() / "whole").string();
  train({Shards::model, 2, adamw}, 0, 5, "", sharded);
  train({Shards::none, 2, adamw}, 0, 5, "", whole);
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

TEST(FsdpResume, ResumesOnOtherRankCountsAndFromAndToDdp) {
  const TemporaryFolder folder;
  const auto saved_by = [&](const Job& job, const std::string& name) {
    const std::string saved = (folder.path() / name).string();
    train(job, 0, 4, "", saved);
    return saved;
  };
  const std::string two = saved_by({Shards::model, 2, adamw}, "two"),
                    ddp = saved_by({Shards::none, 2, adamw}, "ddp");
  // On two ranks, sharded and unsharded runs give the same bits.
  const at::Tensor expected = train({Shards::none, 2, adamw}, 4, 8, ddp);
  EXPECT_TRUE(train({Shards::model, 2, adamw}, 4, 8, ddp).equal(expected)) << "of DDP's";
  EXPECT_TRUE(train({Shards::none, 2, adamw}, 4, 8, two).equal(expected)) << "by DDP";
  EXPECT_TRUE(
      train({.optimizer_first = true, .strategy = "shard_grad_op"}, 4, 8, ddp, "", true).equal(expected))
      << "optimizer first";
  // Three ranks get different batches; both variants agree up to summation order (Adam would amplify a zero
  // gradient's rounding).
  const std::string sgd = saved_by({Shards::model, 2, momentum}, "sgd");
  const at::Tensor three = train({Shards::none, 3, momentum}, 4, 8, sgd);
  EXPECT_LT((train({Shards::model, 3, momentum}, 4, 8, sgd) - three).abs().max().item<double>(), 1e-5);
  EXPECT_EQ(train({Shards::model, 1, adamw}, 4, 8, two).sizes(), expected.sizes());
}

TEST(FsdpResume, SaysWhatItCannotRestore) {
  const TemporaryFolder folder;
  const std::string saved = (folder.path() / "saved").string(), other = (folder.path() / "other").string();
  train({Shards::model, 2, own}, 0, 3, "", saved);
  EXPECT_THAT(
      failure_of([&] {
        train({Shards::model, 3, own}, 3, 4, saved);
      }),
      HasSubstr(
          "it was saved by a run that was not sharded, or was sharded over another number of ranks, and "
          "hookline does not know how to cut it"));
  EXPECT_THAT(failure_of([&] {
                train({Shards::none, 2, own}, 3, 4, saved);
              }),
              HasSubstr("it was saved by a sharded run, in which each rank kept its own part; this run is "
                        "not sharded, or its "
                        "model is not prepared yet: prepare the model before the optimizer"));
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.fsdp.sharding_strategy = "full_shard";
    Accelerator accelerator(config, world);
    torch::nn::Linear net(6, 2);
    auto model = accelerator.prepare(net);
    EXPECT_TRUE(accelerator.save_state(other));
    torch::nn::Linear wider(6, 5);
    Accelerator second(config, world);
    auto wide = second.prepare(wider);
    EXPECT_THAT(failure_of([&] { second.load_state(other); }),
                ::testing::AllOf(HasSubstr("the model of the checkpoint '" + other + "' is not that "),
                                 HasSubstr(": 'bias' is Float [2] there and Float [5] here")));
  });
}

}  // namespace
}  // namespace hookline
