// Exchanging a model's communication hook between two steps.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "hooks/registry/registry.h"
#include "parallel/choice/bucket_sizes.h"
#include "parallel/distributed_module.h"
#include "tests/support/failure.h"
#include "tests/support/random_rows.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::failure_of;
using ::testing::HasSubstr;
using testing::random_rows;
using testing::run_ranks;
using ::testing::UnorderedElementsAre;

struct ThreeLayersImpl : torch::nn::Module {
  ThreeLayersImpl() {
    first = register_module("first", torch::nn::Linear(40, 60));
    second = register_module("second", torch::nn::Linear(60, 50));
    last = register_module("last", torch::nn::Linear(50, 4));
  }
  at::Tensor forward(const at::Tensor& x) { return last(torch::tanh(second(torch::tanh(first(x))))); }
  torch::nn::Linear first{nullptr}, second{nullptr}, last{nullptr};
};
using Distributed = DistributedModule<ThreeLayersImpl>;

/// Several buckets of 4 kB, with each way to store gradients and to find unused parameters.
DdpOptions options_of(const std::string& name) {
  DdpOptions options;
  options.bucket_limits = BucketLimits{4096, 4096};
  options.gradient_as_bucket_view = name == "views";
  options.find_unused_parameters = name == "unused";
  options.static_graph = name == "static";
  return options;
}

std::unique_ptr<CommHook> hook_of(const std::string& name, const HookContext& context) {
  OptionMap options;
  if (name == "power_sgd") options = {{"matrix_approximation_rank", 1}, {"start_powerSGD_iter", 2}};
  return Registry::instance().build(name, "no", options, context);
}

std::unique_ptr<CommHook> half(const HookContext& context) { return hook_of("fp16", context); }

/// Trains from step `from` up to (excluding) `to`, on data of each rank's own.
void train_steps(const World& world, Distributed& model, int from, int to) {
  for (int step = from; step < to; ++step) {
    for (at::Tensor& parameter : model->parameters()) parameter.mutable_grad() = at::Tensor();
    model.forward(random_rows(5, 40, 100 * step + world.rank())).square().sum().backward();
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : model->parameters()) parameter.sub_(parameter.grad(), 0.01);
  }
}

bool all_equal(const torch::nn::Module& a, const torch::nn::Module& b) {
  for (std::size_t i = 0; i < a.parameters().size(); ++i)
    if (!a.parameters()[i].equal(b.parameters()[i])) return false;
  return true;
}

class ExchangeHook : public ::testing::TestWithParam<const char*> {};

// The reference model has the new hook from its first step on, starting from the state at the exchange.
TEST_P(ExchangeHook, ContinuesAsIfTheModelAlwaysHadTheHook) {
  for (const std::vector<std::string>& hooks :
       {std::vector<std::string>{"no", "fp16"}, {"fp16", "no"}, {"bf16", "power_sgd"}}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      const DdpOptions options = options_of(GetParam());
      const auto net = std::make_shared<ThreeLayersImpl>();
      Distributed model(world, net, options);
      if (auto hook = hook_of(hooks[0], model.ddp().hook_context()))
        model.register_comm_hook(std::move(hook));
      train_steps(*world, model, 0, 4);

      const auto peer_net = std::make_shared<ThreeLayersImpl>();
      {
        const torch::NoGradGuard no_grad;
        for (std::size_t i = 0; i < net->parameters().size(); ++i)
          peer_net->parameters()[i].copy_(net->parameters()[i]);
      }
      Distributed peer(world, peer_net, options);
      if (auto hook = hook_of(hooks[1], peer.ddp().hook_context())) peer.register_comm_hook(std::move(hook));
      peer.ddp().load_state(model.ddp().save_state());

      model.ddp().exchange_hook([&](const HookContext& context) { return hook_of(hooks[1], context); });
      train_steps(*world, model, 4, 9);
      train_steps(*world, peer, 4, 9);
      EXPECT_TRUE(all_equal(*net, *peer_net)) << hooks[0] << " to " << hooks[1];
      EXPECT_EQ(model.ddp().communication_stats().steps, 9);
      EXPECT_EQ(model.ddp().communication_stats().pipeline, peer.ddp().communication_stats().pipeline);
    });
  }
}

BucketParameters in_one_bucket(const BucketParameters& buckets) { return {order_of(buckets)}; }

TEST_P(ExchangeHook, ContinuesInOtherBuckets) {
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    const DdpOptions options = options_of(GetParam());
    const auto net = std::make_shared<ThreeLayersImpl>(), peer_net = std::make_shared<ThreeLayersImpl>();
    Distributed model(world, net, options);
    train_steps(*world, model, 0, 4);
    {
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < net->parameters().size(); ++i)
        peer_net->parameters()[i].copy_(net->parameters()[i]);
    }
    Distributed peer(world, peer_net, options);
    peer.ddp().load_state(model.ddp().save_state());
    EXPECT_GT(model.ddp().buckets().size(), 1U);
    model.ddp().exchange_hook(half, in_one_bucket(model.ddp().buckets()));
    peer.ddp().exchange_hook(half);
    EXPECT_EQ(model.ddp().buckets().size(), 1U);
    train_steps(*world, model, 4, 7);
    train_steps(*world, peer, 4, 7);
    EXPECT_EQ(model.ddp().buckets().size(), 1U) << "they are not rebuilt";
    EXPECT_TRUE(all_equal(*net, *peer_net)) << "a sum of two is the same in any bucket";
    // A checkpoint preserves the buckets.
    Distributed resumed(world, std::make_shared<ThreeLayersImpl>(), options);
    EXPECT_TRUE(resumed.ddp().load_state(model.ddp().save_state()));
    EXPECT_EQ(resumed.ddp().buckets().size(), 1U);
  });
}

INSTANTIATE_TEST_SUITE_P(Options, ExchangeHook, ::testing::Values("plain", "views", "unused", "static"),
                         [](const auto& test) { return test.param; });

/// The result of a step without a hook: the average over all ranks of gradients plus held-back gradients.
std::vector<at::Tensor> averages(World& world, Distributed& model, const at::Tensor& x,
                                 const std::vector<at::Tensor>& held_back) {
  const auto alone = std::make_shared<ThreeLayersImpl>();
  {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < alone->parameters().size(); ++i)
      alone->parameters()[i].copy_(model->parameters()[i]);
  }
  alone->forward(x).square().sum().backward();
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 0; i < alone->parameters().size(); ++i) {
    at::Tensor sum = alone->parameters()[i].grad().clone();
    if (held_back[i].defined()) sum += held_back[i];
    world.all_reduce(sum);
    gradients.push_back(sum / world.size());
  }
  return gradients;
}

/// The held-back gradients per parameter, in the model's order.
std::vector<at::Tensor> held_back_of(Distributed& model) {
  const BucketParameters buckets = model.ddp().buckets();
  const std::vector<at::Tensor> errors = model.ddp().hook()->held_back(buckets);
  std::vector<at::Tensor> of_parameters(model->parameters().size());
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    std::int64_t at = 0;
    for (const at::Tensor& parameter : buckets[bucket]) {
      for (std::size_t i = 0; i < of_parameters.size(); ++i)
        if (model->parameters()[i].is_same(parameter) && errors[bucket].defined())
          of_parameters[i] = errors[bucket].narrow(0, at, parameter.numel()).view(parameter.sizes()).clone();
      at += parameter.numel();
    }
  }
  return of_parameters;
}

class HeldBack : public ::testing::TestWithParam<const char*> {};

// PowerSGD's error holds gradients that were not sent yet: the next step sends them, whatever its hook is.
TEST_P(HeldBack, IsPartOfTheNextStepWithoutAHook) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Distributed model(world, std::make_shared<ThreeLayersImpl>(), options_of(GetParam()));
    model.register_comm_hook(hook_of("power_sgd", model.ddp().hook_context()));
    train_steps(*world, model, 0, 5);
    const std::vector<at::Tensor> held_back = held_back_of(model), nothing(held_back.size());
    double norm = 0;
    for (const at::Tensor& each : held_back)
      if (each.defined()) norm += each.norm().item<double>();
    EXPECT_GT(norm, 0.1);
    model.ddp().exchange_hook({});
    for (const bool is_first : {true, false}) {
      const at::Tensor x = random_rows(5, 40, 900 + world->rank());
      const auto expected = averages(*world, model, x, is_first ? held_back : nothing);
      for (at::Tensor& parameter : model->parameters()) parameter.mutable_grad() = at::Tensor();
      model.forward(x).square().sum().backward();
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(model->parameters()[i].grad().allclose(expected[i], 1e-4, 1e-5)) << is_first << i;
    }
    EXPECT_EQ(model.ddp().hook(), nullptr);
    EXPECT_EQ(model.ddp().communication_stats().steps, 7);
  });
}

TEST_P(HeldBack, IsHandedToTheNextHookInTheSameBucketsAndInOthers) {
  for (const bool others : {false, true}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      Distributed model(world, std::make_shared<ThreeLayersImpl>(), options_of(GetParam()));
      model.register_comm_hook(hook_of("power_sgd", model.ddp().hook_context()));
      train_steps(*world, model, 0, 5);
      const std::vector<at::Tensor> held_back = held_back_of(model);
      model.ddp().exchange_hook([](const HookContext& context) { return hook_of("allreduce", context); },
                                others ? in_one_bucket(model.ddp().buckets()) : BucketParameters());
      const at::Tensor x = random_rows(5, 40, 900 + world->rank());
      const auto expected = averages(*world, model, x, held_back);
      for (at::Tensor& parameter : model->parameters()) parameter.mutable_grad() = at::Tensor();
      model.forward(x).square().sum().backward();
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(model->parameters()[i].grad().allclose(expected[i], 1e-4, 1e-5)) << others << i;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Options, HeldBack, ::testing::Values("plain", "views", "unused", "static"),
                         [](const auto& test) { return test.param; });

TEST(ExchangingAHook, RefusesBucketsOfOtherParameters) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Distributed model(world, std::make_shared<ThreeLayersImpl>(), options_of("plain"));
    train_steps(*world, model, 0, 2);
    BucketParameters buckets = in_one_bucket(model.ddp().buckets());
    const at::Tensor first = buckets[0].front();
    buckets[0].front() = buckets[0].back();
    EXPECT_EQ(failure_of<Error>([&] { model.ddp().exchange_hook({}, buckets); }),
              "buckets hold a tensor twice, or one that is not a parameter of the model");
    buckets[0].erase(buckets[0].begin());
    EXPECT_EQ(failure_of<Error>([&] { model.ddp().exchange_hook({}, buckets); }),
              "the parameter 'last.bias' is in no bucket");
    train_steps(*world, model, 2, 3);
    Distributed fresh(world, std::make_shared<ThreeLayersImpl>(), options_of("static"));
    EXPECT_EQ(failure_of<Error>([&] { fresh.ddp().exchange_hook({}, fresh.ddp().buckets()); }),
              "a static graph's buckets can't be cut anew before its first step is over");
  });
}

TEST(ExchangingAHook, CountsTheBytesOfBothHooks) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Distributed model(world, std::make_shared<ThreeLayersImpl>(), options_of("plain"));
    train_steps(*world, model, 0, 3);
    const std::int64_t gradients = model.ddp().communication_stats().gradient_bytes;
    EXPECT_EQ(model.ddp().bytes_sent(), 3 * gradients);
    model.ddp().exchange_hook(half);
    train_steps(*world, model, 3, 5);
    EXPECT_EQ(model.ddp().bytes_sent(), 3 * gradients + 2 * gradients / 2);
    model.ddp().exchange_hook({});
    train_steps(*world, model, 5, 6);
    EXPECT_EQ(model.ddp().bytes_sent(), 3 * gradients + 2 * gradients / 2 + gradients);
  });
}

class BreaksOnRankOne : public CommHook {
 public:
  using CommHook::CommHook;
  FuturePtr run(GradBucket bucket) override {
    if (comm().rank() == 1) throw Error("no memory");
    return comm().all_reduce(bucket.buffer());
  }
  std::string describe() const override { return "a hook that breaks"; }
};

// Each stage costs a process group, with threads and connections.
TEST(ExchangingAHook, OpensNoMoreStagesThanTheHooksNeed) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Distributed model(world, std::make_shared<ThreeLayersImpl>(), options_of("plain"));
    train_steps(*world, model, 0, 2);
    for (int round = 0; round < 3; ++round) {
      model.ddp().exchange_hook([](const HookContext& context) { return hook_of("power_sgd", context); });
      train_steps(*world, model, 2 + 8 * round, 6 + 8 * round);
      EXPECT_EQ(model.ddp().communication_stats().stages.size(), 2u);
      model.ddp().exchange_hook(half);
      train_steps(*world, model, 6 + 8 * round, 10 + 8 * round);
    }
  });
}

TEST(ExchangingAHook, ContinuesTheStepCount) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Distributed model(world, std::make_shared<ThreeLayersImpl>(), options_of("plain"));
    train_steps(*world, model, 0, 3);
    model.ddp().exchange_hook(
        [](const HookContext& context) { return std::make_unique<BreaksOnRankOne>(context); });
    EXPECT_THAT(failure_of<std::exception>([&] { train_steps(*world, model, 3, 4); }),
                HasSubstr("step 3 of a hook that breaks failed on rank 1: no memory"));
  });
}

TEST(ExchangingAHook, ContinuesRecordingGradients) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "exchanged-hook-records";
  std::filesystem::remove_all(folder);
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    DdpOptions options = options_of("plain");
    options.record_gradients = folder;
    options.record_gradients_steps = 5;
    Distributed model(world, std::make_shared<ThreeLayersImpl>(), options);
    train_steps(*world, model, 0, 2);
    EXPECT_EQ(model.ddp().hook(), nullptr) << "what records is no hook";
    model.ddp().exchange_hook(half);
    train_steps(*world, model, 2, 4);
    model.ddp().exchange_hook({});
    train_steps(*world, model, 4, 6);
  });
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (file.path().string().find(".rank0.") != std::string::npos)
      names.push_back(file.path().filename().string());
  EXPECT_THAT(names, UnorderedElementsAre("step0000.rank0.safetensors", "step0001.rank0.safetensors",
                                          "step0002.rank0.safetensors", "step0003.rank0.safetensors",
                                          "step0004.rank0.safetensors"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hookline
