// A small training that tests interrupt and resume, with its parameters, its optimizer or neither sharded.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/hookline.h"
#include "tests/support/run_ranks.h"
#include "tests/support/waves.h"

namespace hookline::testing {

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
    testing::set_to_waves(*this, 0.4);
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

inline std::unique_ptr<torch::optim::Optimizer> momentum(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                             torch::optim::SGDOptions(0.05).momentum(0.9));
}
inline std::unique_ptr<torch::optim::Optimizer> adamw(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::AdamW>(std::move(parameters),
                                               torch::optim::AdamWOptions(0.01).amsgrad(true));
}

/// What is divided among the ranks; with none, each rank has it all, as in DDP.
enum class Shards { none, optimizer, model };

struct Job {
  Shards shards = Shards::model;
  int ranks = 2;
  MakeOptimizer optimizer = adamw;
  std::int64_t accumulated = 1;
  bool optimizer_first = false;         // prepared before the model
  bool zeroes = true;                   // clears gradients after each step
  std::string strategy = "full_shard";  // of a sharded model
};

/// Trains from batch `first` up to (excluding) `last` of data that repeats; resumes from `from`, if given, by
/// [training] resume or load_state; saves to `to`, if given. Returns all parameters and buffers, flattened.
inline at::Tensor train(const Job& job, std::int64_t first, std::int64_t last, const std::string& from = "",
                        const std::string& to = "", bool by_config = false) {
  at::Tensor result;
  run_ranks(job.ranks, [&](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.ddp.shard_optimizer = job.shards == Shards::optimizer;
    if (job.shards == Shards::model) config.fsdp.sharding_strategy = job.strategy;
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

}  // namespace hookline::testing
