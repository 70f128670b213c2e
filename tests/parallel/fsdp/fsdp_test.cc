// A sharded model gives the same results as one that every rank holds in full.
#include "parallel/fsdp/fsdp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "parallel/hookline.h"
#include "tests/support/activation_checkpointing.h"
#include "tests/support/failure.h"
#include "tests/support/run_ranks.h"
#include "tests/support/waves.h"

namespace hookline {
namespace {

using testing::failure_of;
using ::testing::HasSubstr;
using testing::run_ranks;

/// Called inside a forward, for tests that inspect the model there.
using Inside = std::function<void(const std::string& place)>;

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(std::int64_t width, std::string name_in = "", Inside inside_in = {})
      : name(std::move(name_in)), inside(std::move(inside_in)) {
    up = register_module("up", torch::nn::Linear(width, 2 * width));
    down = register_module("down", torch::nn::Linear(torch::nn::LinearOptions(2 * width, width).bias(false)));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  }
  at::Tensor forward(const at::Tensor& x) {
    if (inside) inside(name);
    return x + down(torch::gelu(up(norm(x))));
  }
  std::string name;
  Inside inside;
  torch::nn::Linear up{nullptr}, down{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(Block);

// Parameters in units, in units of a Sequential and in the root; one is frozen, and one has another dtype.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(const Inside& inside = {}) {
    in = register_module("in", torch::nn::Linear(5, 7));
    first = register_module("first", FsdpUnit<Block>(7, "first", inside));
    rest =
        register_module("rest", torch::nn::Sequential(FsdpUnit<torch::nn::Linear>(7, 11), torch::nn::Tanh(),
                                                      FsdpUnit<torch::nn::Linear>(11, 7)));
    last = register_module("last", FsdpUnit<BlockImpl>(7, "last", inside));
    out = register_module("out", torch::nn::Linear(7, 3));
    scale = register_parameter("scale", torch::ones({3}, torch::kDouble));
    frozen = register_parameter("frozen", torch::full({3}, 0.5), /*requires_grad=*/false);
    calls = register_buffer("calls", torch::zeros({1}));
    testing::set_to_waves(*this, 0.5);
  }
  at::Tensor forward(const at::Tensor& x) {
    const torch::Tensor y = last->forward(rest->forward(first->forward(in->forward(x))));
    return (out->forward(y) * frozen).to(torch::kDouble) * scale;
  }
  torch::nn::Linear in{nullptr}, out{nullptr};
  FsdpUnit<Block> first{nullptr};
  FsdpUnit<BlockImpl> last{nullptr};
  torch::nn::Sequential rest{nullptr};
  at::Tensor scale, frozen, calls;
};
TORCH_MODULE(Net);

RunConfig sharded_config(const std::string& strategy = "full_shard", const std::string& hook = "no") {
  RunConfig config;
  config.fsdp.sharding_strategy = strategy;
  config.fsdp.comm_hook = hook;
  return config;
}

at::Tensor inputs_of(int rank, std::int64_t step) {
  return torch::sin(torch::arange(20).to(torch::kFloat) * (1 + rank) + step).view({4, 5});
}

/// All parameters, unsharded, in one tensor.
template <class Model>
at::Tensor parameters_of(Model& model) {
  std::vector<at::Tensor> parts;
  model.summon_full_params([&] {
    for (const auto& parameter : model.module()->parameters())
      parts.push_back(parameter.detach().flatten().to(torch::kDouble, false, /*copy=*/true));
  });
  return torch::cat(parts);
}

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

std::unique_ptr<torch::optim::Optimizer> sgd(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                             torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01));
}
std::unique_ptr<torch::optim::Optimizer> adamw(std::vector<at::Tensor> parameters) {
  return std::make_unique<torch::optim::AdamW>(std::move(parameters), torch::optim::AdamWOptions(0.01));
}

struct Job {
  RunConfig config = sharded_config();
  int ranks = 2;
  MakeOptimizer optimizer = sgd;
  double max_norm = 0;  // 0: gradients are not clipped
  double norm_type = 2;
  std::vector<double> norms = {};
};

at::Tensor loss_of(const at::Tensor& output) { return (output - 1).pow(2).mean(); }

/// The parameters after five steps; checks that the ranks agree on them.
at::Tensor train(Job& job) {
  at::Tensor result;
  run_ranks(job.ranks, [&](const std::shared_ptr<World>& world) {
    Accelerator accelerator(job.config, world);
    Net net;
    const auto bare = job.optimizer(net->parameters());
    auto [model, optimizer] = accelerator.prepare(net, *bare);
    for (std::int64_t batch = 0; batch < 5 * job.config.training.gradient_accumulation_steps; ++batch) {
      accelerator.accumulate(model, [&, &model = model, &optimizer = optimizer] {
        accelerator.backward(loss_of(model->forward(inputs_of(world->rank(), batch))));
        if (job.max_norm > 0) {
          const double norm = accelerator.clip_grad_norm(model->parameters(), job.max_norm, job.norm_type);
          if (world->rank() == 0) job.norms.push_back(norm);
        }
        optimizer.step();
        optimizer.zero_grad();
      });
    }
    const at::Tensor own = parameters_of(model);
    const at::Tensor all = accelerator.gather(own.unsqueeze(0));
    EXPECT_TRUE(all.eq(own.unsqueeze(0)).all().item<bool>()) << "the ranks differ";
    if (world->rank() == 0) result = own;
  });
  return result;
}

Job whole(Job job) {
  job.config.fsdp = {};
  return job;
}

TEST(Fsdp, MatchesDdpBitForBitOnTwoRanks) {
  for (const char* strategy : {"full_shard", "shard_grad_op"}) {
    for (const MakeOptimizer& optimizer : {MakeOptimizer(sgd), MakeOptimizer(adamw)}) {
      Job job{sharded_config(strategy), 2, optimizer};
      Job plain = whole(job);
      EXPECT_TRUE(train(job).equal(train(plain))) << strategy;
    }
  }
}

TEST(Fsdp, MatchesDdpOnAnyNumberOfRanks) {
  for (const int ranks : {1, 3, 4, 5}) {
    Job job{sharded_config(), ranks, sgd};
    Job plain = whole(job);
    const at::Tensor difference = (train(job) - train(plain)).abs().max();
    EXPECT_LT(difference.item<double>(), 1e-6) << ranks << " ranks";
  }
}

TEST(Fsdp, AccumulatesGradientsAsDdpDoes) {
  Job job;
  job.config.training.gradient_accumulation_steps = 3;
  Job plain = whole(job);
  EXPECT_TRUE(train(job).equal(train(plain)));
}

TEST(Fsdp, ClipsByTheNormOfAllRanksTogether) {
  for (const double norm_type : {2.0, 1.0, std::numeric_limits<double>::infinity()}) {
    Job job{sharded_config(), 3, sgd, 0.05, norm_type};
    Job plain = whole(job);
    const at::Tensor difference = (train(job) - train(plain)).abs().max();
    EXPECT_LT(difference.item<double>(), 1e-6);
    ASSERT_EQ(job.norms.size(), plain.norms.size());
    for (std::size_t i = 0; i < job.norms.size(); ++i)
      EXPECT_NEAR(job.norms[i], plain.norms[i], 1e-5 * plain.norms[i]);
    EXPECT_GT(plain.norms[0], 0.05) << "or nothing was clipped";
  }
}

TEST(Fsdp, PropagatesOneRanksNaNToTheGlobalNorm) {
  run_ranks(3, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded_config(), world);
    Net net;
    auto model = accelerator.prepare(net);
    loss_of(model->forward(inputs_of(world->rank(), 0))).backward();
    if (world->rank() == 1) {
      for (const auto& parameter : net->parameters())
        if (parameter.requires_grad()) parameter.mutable_grad().fill_(std::nan(""));
    }
    for (const double norm_type : {2.0, std::numeric_limits<double>::infinity()})
      EXPECT_TRUE(std::isnan(accelerator.clip_grad_norm(model->parameters(), 1, norm_type)));
    EXPECT_EQ(failure_of([&] { accelerator.clip_grad_norm(model->parameters(), 1, 0); }),
              "clip_grad_norm: for a sharded model or optimizer, norm_type must be above 0, such as 1 or 2, "
              "not 0.000000");
  });
}

TEST(Fsdp, SendsHalfPrecisionAndStaysClose) {
  Job plain = whole({});
  const at::Tensor exact = train(plain);
  for (const int ranks : {2, 3}) {
    for (const char* hook : {"fp16", "bf16"}) {
      Job job{sharded_config("full_shard", hook), ranks};
      Job same = whole(job);
      const at::Tensor expected = ranks == 2 ? exact : train(same);
      const double error = (train(job) - expected).abs().max().item<double>();
      EXPECT_GT(error, 0) << hook << ": nothing was cast";
      EXPECT_LT(error, hook == std::string("fp16") ? 1e-3 : 1e-2) << hook << ", " << ranks << " ranks";
    }
  }
}

TEST(Fsdp, HoldsOnlyItsShareBetweenSteps) {
  run_ranks(3, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded_config(), world);
    Net net;
    std::int64_t all = 0;
    for (const auto& parameter : net->parameters()) all += parameter.numel();
    torch::optim::AdamW adam(net->parameters());
    auto [model, optimizer] = accelerator.prepare(net, adam);
    const auto expect_pieces = [&] {
      std::int64_t held = 0;
      for (const auto& parameter : net->parameters()) {
        EXPECT_EQ(parameter.dim(), 1);
        held += parameter.numel();
      }
      const at::Tensor total = accelerator.reduce(torch::tensor(held));
      EXPECT_EQ(total.item<std::int64_t>(), all) << "the pieces hold every element once";
    };
    expect_pieces();
    accelerator.backward(loss_of(model->forward(inputs_of(world->rank(), 0))));
    expect_pieces();
    for (const auto& parameter : net->parameters()) {
      if (parameter.requires_grad()) {
        EXPECT_EQ(parameter.grad().sizes(), parameter.sizes());
      }
    }
    optimizer.step();
    for (const auto& [key, state] : adam.state()) {
      const auto& tensors = static_cast<const torch::optim::AdamWParamState&>(*state);
      EXPECT_EQ(tensors.exp_avg().dim(), 1);
    }
  });
}

TEST(Fsdp, GathersOneUnitAtATimeAndTheNextOneAhead) {
  for (const char* strategy : {"full_shard", "shard_grad_op"}) {
    run_ranks(2, [strategy](const std::shared_ptr<World>& world) {
      const bool reshards = strategy == std::string("full_shard");
      Accelerator accelerator(sharded_config(strategy), world);
      Net* seen = nullptr;
      std::vector<std::string> places;
      Net net([&](const std::string& place) {
        places.push_back(place);
        NetImpl& here = **seen;
        const auto is_there = [](const at::Tensor& parameter) {
          EXPECT_EQ(parameter.dim(), 2);
          return failure_of<c10::Error>([&] { parameter.sum(); }) == "no error";
        };
        EXPECT_TRUE(is_there(here.in->weight)) << "parameters outside units stay unsharded";
        EXPECT_EQ(is_there(here.first->up->weight), place == "first" || !reshards);
        EXPECT_EQ(is_there(here.last->up->weight), place == "last");
      });
      seen = &net;
      auto model = accelerator.prepare(net);
      for (std::int64_t step = 0; step < 3; ++step)
        loss_of(model->forward(inputs_of(world->rank(), step))).backward();
      EXPECT_EQ(places.size(), 6u);
      EXPECT_EQ(net->in->weight.dim(), 1);
    });
  }
}

TEST(Fsdp, FreesMemoryAfterAForwardWithoutBackward) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded_config(), world);
    Net net;
    auto model = accelerator.prepare(net);
    const auto whole_bytes = [&] {
      std::size_t bytes = 0;
      for (const auto& flat : dynamic_cast<Fsdp&>(model.strategy()).flat_parameters())
        bytes += flat->is_allocated() ? 1 : 0;
      return bytes;
    };
    loss_of(model->forward(inputs_of(world->rank(), 0))).backward();
    EXPECT_EQ(whole_bytes(), 0u);
    const at::Tensor trained = model->forward(inputs_of(0, 1)).detach();
    EXPECT_GT(whole_bytes(), 0u) << "a backward may come";
    {
      const torch::NoGradGuard no_grad;
      EXPECT_TRUE(model->forward(inputs_of(0, 1)).equal(trained));
    }
    EXPECT_EQ(whole_bytes(), 0u);
  });
}

// Without `uses_all`, which rank 1 lacks, the unit `side` does not contribute to the loss.
struct ForkImpl : torch::nn::Module {
  explicit ForkImpl(bool uses_all_in) : uses_all(uses_all_in) {
    stem = register_module("stem", FsdpUnit<torch::nn::Linear>(4, 4));
    side = register_module("side", FsdpUnit<torch::nn::Linear>(4, 4));
    const torch::NoGradGuard no_grad;
    for (auto& parameter : parameters()) parameter.fill_(0.25);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = stem->forward(x), z = side->forward(x);
    return uses_all ? y + z : y + 0.0 * z.detach();
  }
  bool uses_all;
  FsdpUnit<torch::nn::Linear> stem{nullptr}, side{nullptr};
};
TORCH_MODULE(Fork);

TEST(Fsdp, AveragesWhatOnlySomeRanksUse) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded_config(), world);
    Fork net(world->rank() == 0);
    auto model = accelerator.prepare(net);
    const at::Tensor x = torch::ones({2, 4});
    for (int step = 0; step < 3; ++step) {
      model->zero_grad();
      model->forward(x).sum().backward();
      const at::Tensor side = net->side->weight.grad(), stem = net->stem->weight.grad();
      ASSERT_TRUE(side.defined());
      EXPECT_TRUE(side.eq(1).all().item<bool>()) << "two rows, of one rank of two";
      EXPECT_TRUE(stem.eq(2).all().item<bool>());
    }
  });
}

TEST(Fsdp, AccumulatesOverTwoBackwardsOrTwoForwards) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Net net, other;
    Accelerator accelerator(sharded_config(), world), plain(RunConfig{}, world);
    auto model = accelerator.prepare(net);
    auto whole_model = plain.prepare(other);
    const auto expect_same = [&](const char* what) {
      const at::Tensor own = net->first->up->weight.grad().flatten();
      const at::Tensor all = other->first->up->weight.grad().flatten();
      const std::int64_t first = world->rank() == 0 ? 0 : all.numel() - own.numel();
      EXPECT_TRUE(own.allclose(all.narrow(0, first, own.numel()), 1e-5, 1e-7)) << what;
    };
    const auto backward_twice = [&](auto& each) {
      for (std::int64_t batch = 0; batch < 2; ++batch)
        loss_of(each->forward(inputs_of(world->rank(), batch))).backward();
    };
    backward_twice(model);
    backward_twice(whole_model);
    expect_same("two backwards");

    model.zero_grad();
    whole_model.zero_grad();
    const at::Tensor kept = loss_of(model->forward(inputs_of(world->rank(), 7)));
    kept.backward({}, /*retain_graph=*/true);
    kept.backward();
    const at::Tensor same = loss_of(whole_model->forward(inputs_of(world->rank(), 7)));
    (2 * same).backward();
    expect_same("one graph twice");

    model.zero_grad();
    whole_model.zero_grad();
    const at::Tensor both = loss_of(model->forward(inputs_of(world->rank(), 3))) +
                            loss_of(model->forward(inputs_of(world->rank(), 4)));
    both.backward();
    for (const std::int64_t batch : {3, 4})
      loss_of(whole_model->forward(inputs_of(world->rank(), batch))).backward();
    expect_same("one backward of two forwards");
  });
}

TEST(Fsdp, ContinuesAfterAForwardAndABackwardThatThrew) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    bool throws = false;
    Net net([&](const std::string& place) {
      if (throws && place == "last") throw Error("no such row");
    });
    Accelerator accelerator(sharded_config(), world);
    auto model = accelerator.prepare(net);
    const auto step = [&] { loss_of(model->forward(inputs_of(world->rank(), 1))).backward(); };
    step();
    const at::Tensor expected = net->in->weight.grad().clone();
    model.zero_grad();
    throws = true;
    EXPECT_EQ(failure_of(step), "no such row");
    throws = false;
    EXPECT_EQ(net->last->up->weight.dim(), 1);
    const at::Tensor output = model->forward(inputs_of(world->rank(), 1));
    output.register_hook([](const at::Tensor&) { throw Error("no such gradient"); });
    EXPECT_THAT(failure_of<std::exception>([&] { loss_of(output).backward(); }),
                HasSubstr("no such gradient"));
    step();
    EXPECT_TRUE(net->in->weight.grad().equal(expected));
  });
}

TEST(Fsdp, SummonsTheWholeModelAndKeepsChangesToIt) {
  run_ranks(3, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded_config(), world);
    Net net, copy;
    auto model = accelerator.prepare(net);
    model.summon_full_params([&] {
      const torch::NoGradGuard no_grad;
      EXPECT_TRUE(net->first->up->weight.equal(copy->first->up->weight));
      net->first->up->weight.fill_(3);
      net->out->bias.set_data(torch::full({3}, 4.0f));  // as torch::load does
    });
    model.summon_full_params([&] {
      EXPECT_TRUE(net->first->up->weight.eq(3).all().item<bool>());
      EXPECT_TRUE(net->out->bias.eq(4).all().item<bool>());
      EXPECT_TRUE(net->first->down->weight.equal(copy->first->down->weight));
    });
    EXPECT_EQ(failure_of([&] { model.summon_full_params([] { throw Error("disk full"); }); }), "disk full");
    EXPECT_EQ(net->first->up->weight.dim(), 1);
  });
}

TEST(Fsdp, BehavesAsThePlainModuleWithoutSharding) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(RunConfig{}, world);
    Net net;
    auto model = accelerator.prepare(net);
    loss_of(model->forward(inputs_of(world->rank(), 0))).backward();
    EXPECT_EQ(net->first->up->weight.grad().dim(), 2);
    EXPECT_TRUE(net->named_parameters().contains("first.up.weight")) << "a unit renames nothing";
    bool ran = false;
    model.summon_full_params([&] { ran = true; });
    EXPECT_TRUE(ran);
  });
}

TEST(Fsdp, CountsWhatItSends) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    for (const bool is_half : {false, true}) {
      Accelerator accelerator(sharded_config("full_shard", is_half ? "fp16" : "no"), world);
      torch::nn::Sequential net(FsdpUnit<torch::nn::Linear>(torch::nn::LinearOptions(64, 64).bias(false)),
                                torch::nn::Linear(torch::nn::LinearOptions(64, 64).bias(false)));
      auto model = accelerator.prepare(net);
      for (int step = 0; step < 3; ++step) model->forward(torch::ones({2, 64})).sum().backward();
      const CommunicationStats report = model.strategy().communication_stats();
      EXPECT_EQ(report.pipeline, is_half ? "full_shard in fp16" : "full_shard");
      EXPECT_EQ(report.gradient_bytes, 2 * 4 * 64 * 64);
      EXPECT_EQ(report.steps, 3);
      // In halves of an all-reduce: the unit is gathered twice, the root once, and both scatter their
      // gradients.
      const std::int64_t half = 4 * 64 * 64 / 2;
      EXPECT_EQ(report.bytes_per_step, 3 * half + (is_half ? half : 2 * half));
      EXPECT_EQ(report.bytes_sent, 3 * report.bytes_per_step);
      ASSERT_EQ(report.stages.size(), 2u);
      EXPECT_EQ(report.stages[0].stage, "parameters");
      EXPECT_EQ(report.stages[0].bytes, 3 * 3 * half);
      EXPECT_EQ(report.stages[0].bytes + report.stages[1].bytes, report.bytes_sent);
    }
  });
}

// Units used in other ways than a chain: `forward` is the test's own, over layers u0, u1, … of width 4.
struct LayersImpl : torch::nn::Module {
  using Forward = std::function<at::Tensor(LayersImpl&, const at::Tensor&)>;
  LayersImpl(int count, Forward forward_in) : run(std::move(forward_in)) {
    for (int i = 0; i < count; ++i)
      layers.push_back(register_module("u" + std::to_string(i), FsdpUnit<torch::nn::Linear>(4, 4)));
    testing::set_to_waves(*this, 0.5);
  }
  at::Tensor forward(const at::Tensor& x) { return run(*this, x); }
  Forward run;
  std::vector<FsdpUnit<torch::nn::Linear>> layers;
};
TORCH_MODULE(Layers);

at::Tensor chain(LayersImpl& net, at::Tensor x) {
  for (auto& layer : net.layers) x = torch::tanh(layer->forward(x));
  return x;
}

/// Trains `forward` for a few steps with DDP and sharded, and expects equal results; `before` modifies the
/// model first.
void expect_ddps_steps(
    int count, const LayersImpl::Forward& forward,
    const std::function<void(LayersImpl&)>& before = [](LayersImpl&) {}) {
  std::vector<at::Tensor> results;
  for (const char* strategy : {"no_shard", "full_shard", "shard_grad_op"}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      RunConfig config = sharded_config(strategy);
      config.ddp.find_unused_parameters = true;
      Accelerator accelerator(config, world);
      Layers net(count, forward);
      before(*net);
      torch::optim::SGD plain(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.5));
      auto [model, optimizer] = accelerator.prepare(net, plain);
      for (std::int64_t step = 0; step < 4; ++step) {
        const at::Tensor x =
            torch::sin(torch::arange(8).to(torch::kFloat) * (1 + world->rank()) + step).view({2, 4});
        accelerator.backward(loss_of(model->forward(x)));
        optimizer.step();
        optimizer.zero_grad();
      }
      const at::Tensor all = parameters_of(model);
      if (world->rank() == 0) results.push_back(all);
    });
  }
  EXPECT_TRUE(results[1].equal(results[0])) << (results[1] - results[0]).abs().max().item<double>();
  EXPECT_TRUE(results[2].equal(results[0])) << (results[2] - results[0]).abs().max().item<double>();
}

TEST(Fsdp, TracksOutputsThatAreViewsOrChangedInPlace) {
  expect_ddps_steps(3, [](LayersImpl& net, const at::Tensor& x) {
    at::Tensor y = net.layers[0]->forward(x);
    y.relu_();
    at::Tensor z = net.layers[1]->forward(y.view({4, 2}).view({2, 4})).view({8}).view({2, 4}).transpose(0, 1);
    z.mul_(0.5);
    return net.layers[2]->forward(z.transpose(0, 1).contiguous());
  });
}

TEST(Fsdp, KeepsFrozenParametersForTheGradientsOfInputs) {
  expect_ddps_steps(3, chain, [](LayersImpl& net) {
    for (auto& layer : net.layers) layer->weight.requires_grad_(false);  // train only biases, as adapters do
  });
  // A fully frozen unit still passes gradients on.
  expect_ddps_steps(3, chain, [](LayersImpl& net) {
    for (auto& parameter : net.layers[1]->parameters()) parameter.requires_grad_(false);
  });
}

TEST(Fsdp, HandlesUnitsCalledTwiceOrRegisteredTwice) {
  expect_ddps_steps(2, [](LayersImpl& net, const at::Tensor& x) {
    return net.layers[0]->forward(
        torch::tanh(net.layers[1]->forward(torch::tanh(net.layers[0]->forward(x)))));
  });
  expect_ddps_steps(
      2, [](LayersImpl& net, const at::Tensor& x) { return chain(net, x); },
      [](LayersImpl& net) { net.register_module("again", net.layers[0].ptr()); });
}

TEST(Fsdp, HoldsTwoUnitsAtATimeInABackward) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    std::function<std::int64_t()> whole;
    std::int64_t most = 0;
    Layers net(8, [&](LayersImpl& layers, at::Tensor x) {
      for (auto& layer : layers.layers) {
        x = torch::tanh(layer->forward(x));
        if (x.requires_grad()) x.register_hook([&](const at::Tensor&) { most = std::max(most, whole()); });
      }
      return x;
    });
    Accelerator accelerator(sharded_config(), world);
    auto model = accelerator.prepare(net);
    const auto flats = dynamic_cast<Fsdp&>(model.strategy()).flat_parameters();
    whole = [&] {
      return std::count_if(flats.begin(), flats.end(), [](const auto& flat) { return flat->is_allocated(); });
    };
    for (int step = 0; step < 3; ++step) loss_of(model->forward(torch::ones({2, 4}))).backward();
    EXPECT_EQ(most, 2);
    EXPECT_EQ(whole(), 0);
  });
}

// Rank 1's backward skips the last of many units; rank 0 must not wait for its gradients.
TEST(Fsdp, DoesNotWaitForAUnitThatAnotherRankSkips) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    const bool passes_over = world->rank() == 1;
    Layers net(9, [passes_over](LayersImpl& layers, at::Tensor x) {
      for (std::size_t i = 0; i + 1 < layers.layers.size(); ++i)
        x = torch::tanh(layers.layers[i]->forward(x));
      const at::Tensor side = layers.layers.back()->forward(x);
      return passes_over ? x + 0 * side.detach() : x + side;
    });
    Accelerator accelerator(sharded_config(), world);
    auto model = accelerator.prepare(net);
    const at::Tensor x = torch::ones({2, 4});
    for (int step = 0; step < 2; ++step) {
      model->zero_grad();
      const at::Tensor loss = model->forward(x).sum();
      loss.backward({}, /*retain_graph=*/true);
      loss.backward();  // again through the same graph and units
    }
    const at::Tensor bias = net->layers.back()->bias.grad();
    EXPECT_TRUE(bias.eq(2).all().item<bool>()) << "twice two rows, of one rank of two";
  });
}

TEST(Fsdp, StepsAndSavesAfterAnEvaluationWithGradients) {
  for (const char* strategy : {"full_shard", "shard_grad_op"}) {
    run_ranks(2, [strategy](const std::shared_ptr<World>& world) {
      Accelerator accelerator(sharded_config(strategy), world);
      Layers net(3, chain);
      torch::optim::SGD plain(net->parameters(), 0.5);
      auto [model, optimizer] = accelerator.prepare(net, plain);
      const at::Tensor x = torch::ones({2, 4});
      accelerator.backward(loss_of(model->forward(x)));
      const at::Tensor before = loss_of(model->forward(x)).detach();  // no backward follows
      optimizer.step();
      const at::Tensor after = loss_of(model->forward(x)).detach();
      EXPECT_LT(after.item<float>(), before.item<float>()) << strategy;
      EXPECT_EQ(model.strategy().communication_stats().steps, 3) << "forwards that a backward may follow";
      {
        const torch::NoGradGuard no_grad;
        model->forward(x);
      }
      EXPECT_EQ(model.strategy().communication_stats().steps, 3);
    });
  }
}

TEST(Fsdp, ComputesWithNewParametersAfterAForwardThatThrew) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    bool throws = false;
    Layers net(4, [&](LayersImpl& layers, at::Tensor x) {
      for (std::size_t i = 0; i < layers.layers.size(); ++i) {
        if (throws && i == 2) throw Error("no such row");  // the next unit is already gathered
        x = layers.layers[i]->forward(x);
      }
      return x;
    });
    Accelerator accelerator(sharded_config(), world);
    auto model = accelerator.prepare(net);
    const at::Tensor x = torch::ones({2, 4});
    model->forward(x);
    throws = true;
    EXPECT_EQ(failure_of([&] { model->forward(x); }), "no such row");
    throws = false;
    model.summon_full_params([&] {
      const torch::NoGradGuard no_grad;
      for (auto& parameter : net->parameters()) parameter.zero_();
    });
    EXPECT_EQ(model->forward(x).abs().max().item<float>(), 0);
  });
}

TEST(Fsdp, AllowsFreezingAndRefusesLateUnfreezing) {
  const auto freeze_first = [](LayersImpl& net, bool on) { net.layers[0]->weight.requires_grad_(!on); };
  for (const char* strategy : {"full_shard", "shard_grad_op"}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      Accelerator accelerator(sharded_config(strategy), world);
      Layers net(2, chain), always_frozen(2, chain);
      auto model = accelerator.prepare(net);
      freeze_first(*net, true);
      const auto step = [&] { loss_of(model->forward(torch::ones({2, 4}))).backward(); };
      step();
      EXPECT_FALSE(net->layers[0]->weight.grad().defined());
      EXPECT_TRUE(net->layers[0]->bias.grad().defined());
      EXPECT_EQ(net->layers[1]->weight.grad().dim(), 1);
      freeze_first(*net, false);
      step();
      EXPECT_TRUE(net->layers[0]->weight.grad().defined());

      freeze_first(*always_frozen, true);
      auto frozen = accelerator.prepare(always_frozen);
      freeze_first(*always_frozen, false);
      EXPECT_THAT(failure_of([&] {
                    frozen->forward(torch::ones({2, 4}));
                  }),
                  HasSubstr("the parameter 'u0.weight' requires a gradient now, "));
    });
  }
}

TEST(Fsdp, SupportsOptimizersWithInitialState) {
  std::vector<at::Tensor> results;
  for (const char* strategy : {"no_shard", "full_shard"}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      Accelerator accelerator(sharded_config(strategy), world);
      Layers net(3, chain);
      torch::optim::Adagrad adagrad(net->parameters());
      auto [model, optimizer] = accelerator.prepare(net, adagrad);
      for (int step = 0; step < 3; ++step) {
        accelerator.backward(loss_of(model->forward(torch::ones({2, 4}))));
        optimizer.step();
        optimizer.zero_grad();
      }
      const at::Tensor all = parameters_of(model);
      if (world->rank() == 0) results.push_back(all);
    });
  }
  EXPECT_TRUE(results[0].equal(results[1]));
}

TEST(Fsdp, ZeroGradDropsGradientsKeptByNoSync) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded_config(), world);
    Layers net(2, chain);
    torch::optim::SGD plain(net->parameters(), 0.1);
    auto [model, optimizer] = accelerator.prepare(net, plain);
    const auto backward = [&, &model = model](double factor) {
      (factor * loss_of(model->forward(torch::ones({2, 4})))).backward();
    };
    backward(1);
    const at::Tensor expected = net->layers[0]->bias.grad().clone();
    for (const bool by_optimizer : {false, true}) {
      model.zero_grad();
      model.no_sync([&] { backward(100); });
      by_optimizer ? optimizer.zero_grad() : model.zero_grad();
      backward(1);
      EXPECT_TRUE(net->layers[0]->bias.grad().equal(expected));
    }
  });
}

TEST(Fsdp, RunsAnotherBackwardRightAfterOneThatThrew) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded_config(), world);
    Layers net(3, chain);
    auto model = accelerator.prepare(net);
    const at::Tensor x = torch::ones({2, 4});
    loss_of(model->forward(x)).backward();
    const at::Tensor expected = net->layers[0]->bias.grad().clone();
    model.zero_grad();
    const at::Tensor bad = model->forward(x), good = model->forward(x);
    bad.register_hook([](const at::Tensor&) { throw Error("no such gradient"); });
    EXPECT_THAT(failure_of<std::exception>([&] { loss_of(bad).backward(); }), HasSubstr("no such gradient"));
    loss_of(good).backward();
    EXPECT_TRUE(net->layers[0]->bias.grad().equal(expected));
  });
}

TEST(Fsdp, ReportsRanksThatRunUnitsInDifferentOrders) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded_config(), world);
    Layers net(3, [&](LayersImpl& layers, const at::Tensor& x) {
      const std::size_t first = world->rank() == 0 ? 0 : 1;
      return layers.layers[2]->forward(layers.layers[1 - first]->forward(layers.layers[first]->forward(x)));
    });
    auto model = accelerator.prepare(net);
    EXPECT_EQ(
        failure_of([&] {
          model->forward(torch::ones({2, 4}));
        }),
        "the ranks run different units of a sharded model: rank 0 begins a forward and gathers the "
        "parameters of 'u0', and rank 1 begins a forward and gathers the parameters of 'u1'. Every rank "
        "must run the same units in the same order, in an evaluation too");
  });
}

TEST(Fsdp, SupportsActivationCheckpointing) {
  const auto of = [](LayersImpl& net, std::size_t i) {
    return [layer = net.layers[i]](const at::Tensor& x) mutable { return torch::tanh(layer->forward(x)); };
  };
  const std::vector<std::pair<const char*, LayersImpl::Forward>> forwards{
      {"each once",
       [&](LayersImpl& net, at::Tensor x) {
         for (std::size_t i = 0; i < net.layers.size(); ++i) x = testing::checkpointed(x, of(net, i));
         return x;
       }},
      {"one twice",
       [&](LayersImpl& net, const at::Tensor& x) {
         return testing::checkpointed(testing::checkpointed(testing::checkpointed(x, of(net, 0)), of(net, 1)),
                                      of(net, 0));
       }},
      {"one three times, one of them in a segment of two",
       [&](LayersImpl& net, const at::Tensor& x) {
         const at::Tensor y = testing::checkpointed(testing::checkpointed(x, of(net, 0)), of(net, 0));
         return testing::checkpointed(y, [first = of(net, 0), second = of(net, 1)](
                                             const at::Tensor& z) mutable { return second(first(z)); });
       }},
      {"one with and without",
       [&](LayersImpl& net, const at::Tensor& x) {
         return of(net,
                   0)(testing::checkpointed(of(net, 1)(testing::checkpointed(x, of(net, 0))), of(net, 0)));
       }},
      {"one without and with",
       [&](LayersImpl& net, const at::Tensor& x) {
         return testing::checkpointed(of(net, 1)(of(net, 0)(x)), of(net, 0));
       }},
  };
  for (const auto& [what, forward] : forwards) {
    for (const std::int64_t accumulated : {1, 2}) {
      std::vector<at::Tensor> results;
      for (const char* strategy : {"no_shard", "full_shard", "shard_grad_op"}) {
        run_ranks(2, [&, forward = forward](const std::shared_ptr<World>& world) {
          RunConfig config = sharded_config(strategy);
          config.training.gradient_accumulation_steps = accumulated;
          config.ddp.find_unused_parameters = false;
          Layers net(2, forward);
          Accelerator accelerator(config, world);
          torch::optim::SGD plain(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.5));
          // DDP's Reducer does not accept a parameter twice in a backward, so gradients are averaged by hand
          // here.
          const bool by_hand = strategy == std::string("no_shard");
          const auto input = [&](std::int64_t batch) {
            return (torch::sin(torch::arange(8).to(torch::kFloat) * (1 + world->rank()) + batch).view({2, 4}))
                .requires_grad_();
          };
          at::Tensor all;
          if (by_hand) {
            for (std::int64_t batch = 0; batch < 4 * accumulated; ++batch) {
              (loss_of(net->forward(input(batch))) / accumulated).backward();
              if ((batch + 1) % accumulated != 0) continue;
              for (auto& parameter : net->parameters()) {
                parameter.mutable_grad() = accelerator.reduce(parameter.grad(), "mean");
              }
              plain.step();
              plain.zero_grad();
            }
            std::vector<at::Tensor> parts;
            for (const auto& parameter : net->parameters())
              parts.push_back(parameter.detach().flatten().to(torch::kDouble));
            all = torch::cat(parts);
          } else {
            auto [model, optimizer] = accelerator.prepare(net, plain);
            for (std::int64_t batch = 0; batch < 4 * accumulated; ++batch) {
              accelerator.accumulate(model, [&, &model = model, &optimizer = optimizer] {
                accelerator.backward(loss_of(model->forward(input(batch))));
                optimizer.step();
                optimizer.zero_grad();
              });
            }
            all = parameters_of(model);
          }
          if (world->rank() == 0) results.push_back(all);
        });
      }
      for (const std::size_t sharded : {1, 2})
        EXPECT_TRUE(results[sharded].allclose(results[0], 1e-5, 1e-7))
            << what << ", " << accumulated << ": "
            << (results[sharded] - results[0]).abs().max().item<double>();
    }
  }
}

TEST(Fsdp, WaitsOnlyOnceForAUnitThatAnotherRankAlwaysSkips) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    const bool passes_over = world->rank() == 1;
    // Enough layers that ranks come to wait for each other.
    constexpr std::size_t kLayers = 8;
    Layers net(kLayers, [passes_over](LayersImpl& layers, const at::Tensor& x) {
      at::Tensor y = x;
      for (std::size_t i = 0; i + 1 < kLayers; ++i) y = layers.layers[i]->forward(y);
      const at::Tensor side = layers.layers[kLayers - 1]->forward(y);
      return passes_over ? y + 0 * side.detach() : y + side;
    });
    Accelerator accelerator(sharded_config(), world);
    auto model = accelerator.prepare(net);
    const auto start = std::chrono::steady_clock::now();
    for (int step = 0; step < 40; ++step) model->forward(torch::ones({2, 4})).sum().backward();
    // It used to cost a second per step.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  });
}

std::size_t threads_of_process() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

TEST(Fsdp, StopsItsThreadsWithTheModel) {
  for (const char* strategy : {"full_shard", "no_shard"}) {
    std::vector<std::size_t> counts;
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      at::ones({2}).requires_grad_().sum().backward();  // starts autograd's thread
      world->barrier("the start");
      if (world->rank() == 0) counts.push_back(threads_of_process());
      world->barrier("the first count");
      std::vector<Net> kept;  // a module may outlive the object that prepare() returned
      for (int model_number = 0; model_number < 4; ++model_number) {
        {
          Accelerator accelerator(sharded_config(strategy), world);
          kept.emplace_back();
          auto model = accelerator.prepare(kept.back());
          loss_of(model->forward(inputs_of(world->rank(), 0))).backward();
        }
        world->barrier("the end of a model");
        if (world->rank() == 0) counts.push_back(threads_of_process());
        world->barrier("the count");
      }
    });
    EXPECT_THAT(counts, ::testing::Each(counts.front())) << strategy;
  }
}

struct ConvolutionsImpl : torch::nn::Module {
  ConvolutionsImpl() {
    first = register_module("first", FsdpUnit<torch::nn::Conv2d>(torch::nn::Conv2dOptions(3, 5, 3)));
    second = register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(5, 4, 2)));
    testing::set_to_waves(*this);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : parameters()) {
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    const bool is_last =
        first->weight.is_contiguous(at::MemoryFormat::ChannelsLast) || first->weight.dim() != 4;
    EXPECT_TRUE(is_last && second->weight.is_contiguous(at::MemoryFormat::ChannelsLast));
    return second->forward(first->forward(x)).mean({2, 3});
  }
  FsdpUnit<torch::nn::Conv2d> first{nullptr};
  torch::nn::Conv2d second{nullptr};
};
TORCH_MODULE(Convolutions);

TEST(Fsdp, KeepsTheStridesOfParameters) {
  std::vector<at::Tensor> results;
  for (const char* strategy : {"no_shard", "full_shard"}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      Accelerator accelerator(sharded_config(strategy), world);
      Convolutions net;
      torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(0.01));
      auto [model, optimizer] = accelerator.prepare(net, adam);
      for (std::int64_t step = 0; step < 3; ++step) {
        const at::Tensor x =
            torch::sin(torch::arange(2 * 3 * 36).to(torch::kFloat) * (1 + world->rank()) + step)
                .view({2, 3, 6, 6});
        accelerator.backward(loss_of(model->forward(x.contiguous(at::MemoryFormat::ChannelsLast))));
        optimizer.step();
        optimizer.zero_grad();
      }
      model.summon_full_params([&, &model = model] {
        EXPECT_TRUE(net->first->weight.is_contiguous(at::MemoryFormat::ChannelsLast));
        EXPECT_FALSE(net->first->weight.is_contiguous());
      });
      const at::Tensor all = parameters_of(model);
      if (world->rank() == 0) results.push_back(all);
    });
  }
  EXPECT_TRUE(results[1].equal(results[0])) << (results[1] - results[0]).abs().max().item<double>();
}

TEST(Fsdp, SaysWhatItDoesNotSupport) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded_config(), world);
    Layers net(2, chain);
    auto model = accelerator.prepare(net);
    EXPECT_THAT(
        failure_of<std::exception>([&] {
          loss_of(model->forward(torch::ones({2, 4}))).backward({}, c10::nullopt, /*create_graph=*/true);
        }),
        HasSubstr("a sharded model has no second derivatives: its backward can't run with create_graph"));
    torch::nn::Linear without_units(4, 4);
    const auto one = accelerator.prepare(without_units);
    EXPECT_THAT(failure_of([&] { accelerator.prepare(without_units); }),
                HasSubstr("is sharded already ('weight'"));
  });
}

struct Hidden {
  at::Tensor value;
};
struct SecretiveImpl : torch::nn::Module {
  SecretiveImpl() { register_parameter("weight", torch::ones({3})); }
  Hidden forward() { return {parameters()[0] * 2}; }
};
TORCH_MODULE(Secretive);
struct SilentImpl : torch::nn::Module {
  SilentImpl() { register_parameter("weight", torch::ones({3})); }
  void forward() {}
};
TORCH_MODULE(Silent);

TEST(Fsdp, SaysWhatAModelLacks) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded_config(), world);
    EXPECT_THAT(
        failure_of([&] { accelerator.prepare(Secretive())->forward(); }),
        HasSubstr("returns a type with tensors that hookline can't find, which a sharded model needs: "
                  "beside that type, define visit_tensors(Output&, visit)"));
    EXPECT_THAT(failure_of([&] { accelerator.prepare(Silent())->forward(); }),
                HasSubstr("returns nothing, and a sharded model needs its outputs: return the tensors"));
    EXPECT_THAT(
        failure_of([&] { accelerator.prepare(torch::nn::ReLU()); }),
        HasSubstr("has no parameter that requires a gradient: there is nothing to train; use it without "
                  "preparing it"));
    Net net;
    for (at::Tensor& parameter : net->parameters()) parameter.requires_grad_(false);
    EXPECT_THAT(failure_of([&] { accelerator.prepare(net); }), HasSubstr("there is nothing to train"));
    for (at::Tensor& parameter : net->parameters()) parameter.requires_grad_(true);
    auto model = std::make_unique<DistributedModule<NetImpl>>(accelerator.prepare(net));
    EXPECT_THAT(failure_of([&] { accelerator.prepare(net); }),
                HasSubstr("is sharded already ('scale' is one rank's piece): prepare it once; after a "
                          "failure, make it anew"));
    EXPECT_THAT(failure_of([&] { model->ddp(); }),
                HasSubstr("is sharded, and DDP's hooks need whole gradients: set [fsdp] comm_hook"));
  });
}

TEST(Fsdp, SaysThatAUnitOutlivedItsModel) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Net net;
    {
      Accelerator accelerator(sharded_config(), world);
      accelerator.prepare(net);
    }
    EXPECT_EQ(failure_of([&] {
                net->first->forward(torch::ones({1, 7}));
              }),
              "the unit 'first' is of a sharded model that is gone: keep what prepare() returned for as long "
              "as its "
              "module is used");
  });
}

TEST(Fsdp, RefusesDifferingModelsOnAllRanks) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded_config(), world);
    torch::nn::Linear net(4, world->rank() == 0 ? 2 : 3);
    EXPECT_THAT(failure_of([&] { accelerator.prepare(net); }), HasSubstr("weight"));
  });
}

TEST(Fsdp, EndsOnAllRanksWhenOneFails) {
  std::vector<std::string> failures(3);
  run_ranks(3, [&](const std::shared_ptr<World>& world) {
    failures[static_cast<std::size_t>(world->rank())] = failure_of<RunFailed>([&] {
      Accelerator accelerator(sharded_config(), world);
      Net net;
      auto model = accelerator.prepare(net);
      for (std::int64_t step = 0;; ++step) {
        if (step == 2 && world->rank() == 1) {
          const FuturePtr failing = make_future();
          failing->setError(std::make_exception_ptr(Error("out of patience")));
          world->watch().watched(failing, "waiting")->waitAndThrow();
        }
        loss_of(model->forward(inputs_of(world->rank(), step))).backward();
      }
    });
  });
  for (const std::string& failure : failures) EXPECT_EQ(failure, "waiting failed on rank 1: out of patience");
}

}  // namespace
}  // namespace hookline
