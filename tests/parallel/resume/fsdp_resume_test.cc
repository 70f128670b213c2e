// A sharded run resumes from its own checkpoints, from those of another number of ranks, and from unsharded
// runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "parallel/hookline.h"
#include "parallel/tensors/safetensors.h"
#include "tests/support/failure.h"
#include "tests/support/process.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::failure_of;
using ::testing::HasSubstr;
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
    wide = register_module("wide", FsdpUnit<torch::nn::Linear>(6, 13));
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
  FsdpUnit<torch::nn::Linear> wide{nullptr}, deep{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear head{nullptr};
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

struct Job {
  std::string strategy = "full_shard";
  int ranks = 2;
  MakeOptimizer optimizer = momentum;
  std::int64_t accumulated = 1;
  bool optimizer_first = false;  // prepared before the model
};

/// Trains from batch `first` up to (excluding) `last`; resumes from `from`, if given, by [training] resume or
/// load_state.
at::Tensor train(const Job& job, std::int64_t first, std::int64_t last, const std::string& from = "",
                 const std::string& to = "", bool by_config = false) {
  at::Tensor result;
  run_ranks(job.ranks, [&](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.fsdp.sharding_strategy = job.strategy;
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
            optimizer.zero_grad();
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

TEST(FsdpResume, MatchesAnUninterruptedRunBitForBit) {
  const TemporaryFolder folder;
  int number = 0;
  for (const int ranks : {1, 2, 3, 4}) {
    for (const MakeOptimizer& optimizer :
         {MakeOptimizer(momentum), MakeOptimizer(adamw), MakeOptimizer(own)}) {
      for (const bool optimizer_first : {false, true}) {
        const Job job{ranks == 3 ? "shard_grad_op" : "full_shard", ranks, optimizer, 1, optimizer_first};
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
  const Job job{"full_shard", 2, adamw, 3};
  const at::Tensor whole = train(job, 0, 12);
  train(job, 0, 5, "", saved);
  EXPECT_TRUE(train(job, 5, 12, saved).equal(whole));
  Job by_ddp = job;
  by_ddp.strategy = "no_shard";
  EXPECT_TRUE(train(by_ddp, 5, 12, saved).equal(whole)) << "by DDP";
}

TEST(FsdpResume, StoresWholeTensorsOnceForAnyReader) {
  const TemporaryFolder folder;
  const std::string sharded = (folder.path() / "sharded").string(),
                    whole = (folder.path() / "whole").string();
  train({"full_shard", 2, adamw}, 0, 5, "", sharded);
  train({"no_shard", 2, adamw}, 0, 5, "", whole);
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
  const std::string two = saved_by({"full_shard", 2, adamw}, "two"),
                    ddp = saved_by({"no_shard", 2, adamw}, "ddp");
  // On two ranks, sharded and unsharded runs give the same bits.
  const at::Tensor expected = train({"no_shard", 2, adamw}, 4, 8, ddp);
  EXPECT_TRUE(train({"full_shard", 2, adamw}, 4, 8, ddp).equal(expected)) << "of DDP's";
  EXPECT_TRUE(train({"no_shard", 2, adamw}, 4, 8, two).equal(expected)) << "by DDP";
  EXPECT_TRUE(train({"shard_grad_op", 2, adamw, 1, true}, 4, 8, ddp, "", true).equal(expected))
      << "optimizer first";
  // Three ranks get different batches; both variants agree up to summation order (Adam would amplify a zero
  // gradient's rounding).
  const std::string sgd = saved_by({"full_shard", 2, momentum}, "sgd");
  const at::Tensor three = train({"no_shard", 3, momentum}, 4, 8, sgd);
  EXPECT_LT((train({"full_shard", 3, momentum}, 4, 8, sgd) - three).abs().max().item<double>(), 1e-5);
  EXPECT_EQ(train({"full_shard", 1, adamw}, 4, 8, two).sizes(), expected.sizes());
}

TEST(FsdpResume, SaysWhatItCannotRestore) {
  const TemporaryFolder folder;
  const std::string saved = (folder.path() / "saved").string(), other = (folder.path() / "other").string();
  train({"full_shard", 2, own}, 0, 3, "", saved);
  EXPECT_THAT(
      failure_of([&] {
        train({"full_shard", 3, own}, 3, 4, saved);
      }),
      HasSubstr(
          "it is not that of a run sharded over as many ranks, and hookline does not know how to cut it"));
  EXPECT_THAT(failure_of([&] {
                train({"no_shard", 2, own}, 3, 4, saved);
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
