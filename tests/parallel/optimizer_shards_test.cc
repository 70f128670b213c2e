// A sharded optimizer gives the same results as one that every rank holds in full.
#include "parallel/optimizer_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "parallel/hookline.h"
#include "parallel/shards/gradient_shares.h"
#include "tests/support/failure.h"
#include "tests/support/logged_messages.h"
#include "tests/support/run_ranks.h"
#include "tests/support/waves.h"

namespace hookline {
namespace {

using testing::failure_of;
using ::testing::HasSubstr;
using testing::Messages;
using ::testing::Not;
using testing::run_ranks;

// Parameters of several dtypes and layouts, enough for several buckets: some with fewer elements than ranks,
// one frozen, and some unused in some steps.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 5, 2)));
    wide = register_module("wide", torch::nn::Linear(20, 601));
    deep = register_module("deep", torch::nn::Linear(601, 601));
    out = register_module("out", torch::nn::Linear(601, 3));
    spare = register_module("spare", torch::nn::Linear(3, 3));
    scale = register_parameter("scale", torch::ones({3}, torch::kDouble));
    gain = register_parameter("gain", torch::ones({}));
    frozen = register_parameter("frozen", torch::full({3}, 0.5), /*requires_grad=*/false);
    conv->to(torch::kFloat);
    testing::set_to_waves(*this, 0.3);
    conv->weight.set_data(conv->weight.contiguous(torch::MemoryFormat::ChannelsLast));
  }
  at::Tensor forward(const at::Tensor& x, bool with_spare = true) {
    at::Tensor y = torch::tanh(conv->forward(x)).flatten(1);
    y = out->forward(torch::tanh(deep->forward(torch::tanh(wide->forward(y)))));
    if (with_spare) y = y + spare->forward(y);
    return (y * frozen * gain).to(torch::kDouble) * scale;
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::Linear wide{nullptr}, deep{nullptr}, out{nullptr}, spare{nullptr};
  at::Tensor scale, gain, frozen;
};
TORCH_MODULE(Net);

at::Tensor inputs_of(int rank, std::int64_t batch) {
  return torch::sin(torch::arange(2 * 27).to(torch::kFloat) * (1 + rank) + batch).view({2, 3, 3, 3});
}
at::Tensor loss_of(const at::Tensor& output) { return (output - 1).pow(2).mean(); }

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(Net&)>;

std::vector<at::Tensor> trained(Net& net) {
  std::vector<at::Tensor> all;
  for (const auto& parameter : net->parameters())
    if (parameter.requires_grad()) all.push_back(parameter);
  return all;
}

template <class Optimizer, class Options>
MakeOptimizer of(Options options) {
  return [options](Net& net) { return std::make_unique<Optimizer>(trained(net), options); };
}
const MakeOptimizer kMomentum =
    of<torch::optim::SGD>(torch::optim::SGDOptions(0.02).momentum(0.9).weight_decay(0.01).nesterov(true));
const MakeOptimizer kAdamW = of<torch::optim::AdamW>(torch::optim::AdamWOptions(0.003));

/// Three parameter groups with different options, and parameters that are in no group.
std::unique_ptr<torch::optim::Optimizer> grouped(Net& net) {
  using torch::optim::AdamOptions;
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(net->deep->parameters(), std::make_unique<AdamOptions>(0.002));
  groups.emplace_back(net->out->parameters(), std::make_unique<AdamOptions>(AdamOptions(0.01).amsgrad(true)));
  groups.emplace_back(std::vector<at::Tensor>{net->gain, net->scale}, std::make_unique<AdamOptions>(0.01));
  return std::make_unique<torch::optim::Adam>(std::move(groups), AdamOptions(0.001));
}

struct Job {
  RunConfig config = {};
  int ranks = 2;
  MakeOptimizer optimizer = kMomentum;
  double max_norm = 0;  // 0: gradients are not clipped
  double norm_type = 2;
  Placement placement = {};
  bool optimizer_first = false;
  std::function<bool(int rank, std::int64_t batch)> uses_spare = [](int, std::int64_t) { return true; };
  std::vector<double> norms = {};
  bool passes_through_frozen = false;  // runs a loss through the frozen model between backward and step
};

at::Tensor flat_parameters(const Net& net) {
  std::vector<at::Tensor> parts;
  for (const auto& parameter : net->parameters())
    parts.push_back(parameter.detach().contiguous().flatten().to(torch::kDouble, false, /*copy=*/true));
  return torch::cat(parts);
}

/// The parameters after five steps; checks that the ranks agree on them.
at::Tensor train(Job& job) {
  at::Tensor result;
  run_ranks(
      job.ranks,
      [&](const std::shared_ptr<World>& world) {
        Accelerator accelerator(job.config, world);
        Net net;
        const auto bare = job.optimizer(net);
        const auto run = [&](auto& model, auto& optimizer) {
          for (std::int64_t batch = 0; batch < 5 * job.config.training.gradient_accumulation_steps; ++batch) {
            accelerator.accumulate(model, [&] {
              accelerator.backward(loss_of(
                  model->forward(inputs_of(world->rank(), batch), job.uses_spare(world->rank(), batch))));
              if (job.passes_through_frozen) {
                const std::vector<at::Tensor> parameters = trained(net);
                for (at::Tensor parameter : parameters) parameter.set_requires_grad(false);
                at::Tensor generated = inputs_of(world->rank(), batch + 7).requires_grad_();
                loss_of(model->forward(generated)).backward();
                for (at::Tensor parameter : parameters) parameter.set_requires_grad(true);
              }
              if (job.max_norm > 0) {
                const double norm = accelerator.clip_grad_norm(trained(net), job.max_norm, job.norm_type);
                if (world->rank() == 0) job.norms.push_back(norm);
              }
              optimizer.step();
              optimizer.zero_grad();
            });
          }
        };
        if (job.optimizer_first) {
          auto [optimizer, model] = accelerator.prepare(*bare, net);
          run(model, optimizer);
        } else {
          auto [model, optimizer] = accelerator.prepare(net, *bare);
          run(model, optimizer);
        }
        const at::Tensor own = flat_parameters(net);
        for (const at::Tensor& other : world->all_gather(own)) EXPECT_TRUE(other.equal(own));
        EXPECT_EQ(net->conv->weight.sizes(), (std::vector<std::int64_t>{5, 3, 2, 2}));
        if (world->rank() == 0) result = own;
      },
      job.placement);
  return result;
}

at::Tensor train_whole(Job job) {
  job.config.ddp.shard_optimizer = false;
  return train(job);
}
at::Tensor train_sharded(Job job) {
  job.config.ddp.shard_optimizer = true;
  return train(job);
}

TEST(OptimizerShards, MatchDdpBitForBit) {
  using namespace torch::optim;
  const std::pair<const char*, MakeOptimizer> optimizers[] = {
      {"SGD", of<SGD>(SGDOptions(0.05))},
      {"momentum", kMomentum},
      {"Adam", of<Adam>(AdamOptions(0.003).weight_decay(0.01))},
      {"AdamW", kAdamW},
      {"amsgrad", of<AdamW>(AdamWOptions(0.003).amsgrad(true))},
      {"Adagrad", of<Adagrad>(AdagradOptions(0.01).initial_accumulator_value(0.1))},
      {"RMSprop", of<RMSprop>(RMSpropOptions(0.001).momentum(0.5).centered(true))},
      {"groups", grouped}};
  for (const auto& [name, optimizer] : optimizers) {
    // Shared memory sums in rank order, for any number of ranks.
    for (const int ranks : {2, 3}) {
      Job job;
      job.ranks = ranks;
      job.optimizer = optimizer;
      job.optimizer_first = ranks == 3;
      EXPECT_TRUE(train_sharded(job).equal(train_whole(job))) << name << ", " << ranks << " ranks";
    }
  }
}

TEST(OptimizerShards, KeepAveragesThroughABackwardOfTheFrozenModel) {
  Job job;
  const at::Tensor plain = train_sharded(job);
  job.passes_through_frozen = true;
  EXPECT_TRUE(train_sharded(job).equal(plain));
}

TEST(OptimizerShards, StepTensorByTensorAsDdpDoes) {
  for (const MakeOptimizer& optimizer : {kMomentum, kAdamW}) {
    Job job;
    job.config.training.fused_optimizer = "no";
    job.optimizer = optimizer;
    EXPECT_LT((train_sharded(job) - train_whole(job)).abs().max().item<double>(), 1e-6);
  }
}

TEST(OptimizerShards, TakeEachHookThatAverages) {
  const auto with = [](const std::string& hook, const std::string& wrapper) {
    Job job;
    job.optimizer = kAdamW;
    job.ranks = 3;
    job.config.ddp.comm_hook = hook;
    job.config.ddp.comm_wrapper = wrapper;
    if (hook == "power_sgd") job.config.ddp.comm_state_option["start_powerSGD_iter"] = std::int64_t{2};
    return job;
  };
  for (const auto& [hook, wrapper] : std::vector<std::pair<std::string, std::string>>{{"allreduce", "no"},
                                                                                      {"fp16", "no"},
                                                                                      {"bf16", "no"},
                                                                                      {"no", "bf16"},
                                                                                      {"allreduce", "fp16"},
                                                                                      {"power_sgd", "no"},
                                                                                      {"power_sgd", "fp16"}})
    EXPECT_TRUE(train_sharded(with(hook, wrapper)).equal(train_whole(with(hook, wrapper))))
        << hook << " in " << wrapper;
}

TEST(OptimizerShards, TrainAsDdpOverGloo) {
  Job job;
  job.placement.shared_memory = SharedMemory::never;
  EXPECT_TRUE(train_sharded(job).equal(train_whole(job)));
  job.ranks = 3;
  EXPECT_LT((train_sharded(job) - train_whole(job)).abs().max().item<double>(), 1e-6)
      << "Gloo's sums depend on where an element lies";
}

TEST(OptimizerShards, SendALargeParameterInPieces) {
  const auto trained_with = [](bool shards, const std::string& hook) {
    at::Tensor result;
    run_ranks(3, [&](const std::shared_ptr<World>& world) {
      RunConfig config;
      config.ddp.shard_optimizer = shards;
      config.ddp.comm_hook = hook;
      Accelerator accelerator(config, world);
      torch::nn::Linear net(1601, 1801);  // 11.5 MB
      const torch::NoGradGuard no_grad;
      net->weight.copy_(torch::sin(torch::arange(net->weight.numel())).view({1801, 1601}) * 0.1);
      net->bias.zero_();
      torch::AutoGradMode grad(true);
      torch::optim::Adam adam(net->parameters(), 0.01);
      auto [model, optimizer] = accelerator.prepare(net, adam);
      for (int step = 0; step < 3; ++step) {
        accelerator.backward(
            model->forward(torch::cos(torch::arange(1601).to(torch::kFloat) + world->rank()).view({1, 1601}))
                .pow(2)
                .mean());
        optimizer.step();
        optimizer.zero_grad();
      }
      const at::Tensor own = torch::cat({net->weight.detach().flatten(), net->bias.detach()});
      for (const at::Tensor& other : world->all_gather(own)) EXPECT_TRUE(other.equal(own));
      if (world->rank() == 0) result = own;
    });
    return result;
  };
  for (const char* hook : {"no", "bf16"})
    EXPECT_TRUE(trained_with(true, hook).equal(trained_with(false, hook))) << hook;
}

TEST(PartLayout, CoversEveryElementOnceForAnyPieceSize) {
  const std::vector<std::int64_t> numels = {7, 0, 1, 16, 3, 40};
  for (const int ranks : {1, 2, 3, 5, 64}) {
    const PartLayout layout(numels, ranks);
    for (std::int64_t piece = 1; piece <= layout.elements(); ++piece) {
      std::vector<std::vector<int>> owners;
      for (const std::int64_t numel : numels) owners.emplace_back(static_cast<std::size_t>(numel), -1);
      for (std::int64_t first = 0; first < layout.elements(); first += piece) {
        const std::int64_t end = std::min(first + piece, layout.elements());
        std::int64_t at = 0;
        layout.for_each(first, end, [&](const PartLayout::Stretch& each) {
          EXPECT_EQ(each.at, at);
          at += each.count;
          for (int rank = 0; rank < ranks; ++rank) {
            EXPECT_EQ(rank < each.full(), each.count_of(rank) == each.count) << "of rank " << rank;
            for (std::int64_t i = 0; i < each.count_of(rank); ++i) {
              int& owner = owners[each.parameter].at(static_cast<std::size_t>(each.begin_of(rank) + i));
              EXPECT_EQ(owner, -1);
              owner = rank;
            }
          }
        });
        EXPECT_EQ(at, end - first);
      }
      for (std::size_t i = 0; i < numels.size(); ++i) {
        for (int rank = 0; rank < ranks; ++rank) {
          const Share share = even_share(numels[i], rank, ranks);
          for (std::int64_t element = share.first; element < share.first + share.count; ++element)
            EXPECT_EQ(owners[i][static_cast<std::size_t>(element)], rank);
        }
      }
    }
  }
}

TEST(OptimizerShards, WorkWithEachDdpOption) {
  Job job;
  job.optimizer = kAdamW;
  job.config.training.gradient_accumulation_steps = 3;
  EXPECT_TRUE(train_sharded(job).equal(train_whole(job))) << "accumulation";
  job.config.ddp.gradient_as_bucket_view = true;
  EXPECT_TRUE(train_sharded(job).equal(train_whole(job))) << "and bucket views";
  job.config.ddp.bucket_cap_mb = 1;
  job.ranks = 3;
  EXPECT_TRUE(train_sharded(job).equal(train_whole(job))) << "and several buckets";
  job.config.ddp.static_graph = true;
  const Messages messages;
  EXPECT_TRUE(train_sharded(job).equal(train_whole(job))) << "and a static graph";
  EXPECT_THAT(messages.text(), Not(HasSubstr("warning")))
      << "the first step, whose averages are delayed, counts";
}

TEST(OptimizerShards, LeaveParametersWithoutAGradientAlone) {
  Job job;
  job.config.ddp.find_unused_parameters = true;
  for (const MakeOptimizer& optimizer : {kMomentum, kAdamW}) {
    job.optimizer = optimizer;
    job.uses_spare = [](int, std::int64_t batch) { return batch % 2 == 0; };
    EXPECT_TRUE(train_sharded(job).equal(train_whole(job))) << "of no rank";
    job.uses_spare = [](int rank, std::int64_t batch) { return batch % 2 == rank % 2; };
    EXPECT_TRUE(train_sharded(job).equal(train_whole(job))) << "of one rank";
  }
}

TEST(OptimizerShards, ClipByTheNormOfAllShares) {
  for (const double norm_type : {2.0, 1.0, std::numeric_limits<double>::infinity()}) {
    Job sharded;
    sharded.ranks = 3;
    sharded.max_norm = 0.01;
    sharded.norm_type = norm_type;
    Job whole = sharded;
    sharded.config.ddp.shard_optimizer = true;
    const at::Tensor one = train(sharded), other = train(whole);
    EXPECT_LT((one - other).abs().max().item<double>(), 1e-6);
    ASSERT_EQ(sharded.norms.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_GT(whole.norms[i], whole.max_norm) << "nothing was clipped";
      EXPECT_NEAR(sharded.norms[i], whole.norms[i], 1e-4 * whole.norms[i])
          << "float32 sums of 370,000 elements";
    }
  }
}

template <class State>
std::int64_t kept_by(torch::optim::Optimizer& optimizer, const std::vector<at::Tensor>& parameters) {
  std::int64_t elements = 0;
  for (const at::Tensor& parameter : parameters) {
    auto& state = static_cast<State&>(*optimizer.state().at(parameter.unsafeGetTensorImpl()));
    EXPECT_EQ(state.exp_avg().numel(), state.exp_avg_sq().numel());
    elements += state.exp_avg().numel();
  }
  return elements;
}

TEST(OptimizerShards, KeepOnlyTheStateOfTheirShare) {
  for (const int ranks : {1, 2, 3}) {
    run_ranks(ranks, [&](const std::shared_ptr<World>& world) {
      RunConfig config;
      config.ddp.shard_optimizer = true;
      Accelerator accelerator(config, world);
      Net net;
      const auto bare = kAdamW(net);
      auto [model, optimizer] = accelerator.prepare(net, *bare);
      accelerator.backward(loss_of(model->forward(inputs_of(world->rank(), 0))));
      optimizer.step();
      std::int64_t all = 0;
      for (const at::Tensor& parameter : trained(net)) all += parameter.numel();
      const std::int64_t own = kept_by<torch::optim::AdamWParamState>(*bare, trained(net));
      EXPECT_LE(own, (all + ranks - 1) / ranks + static_cast<std::int64_t>(trained(net).size()));
      EXPECT_EQ(accelerator.reduce(torch::tensor(own)).item<std::int64_t>(), all);
    });
  }
}

TEST(OptimizerShards, SendAsManyBytesAsAnAllReduce) {
  const auto report_with = [](const std::string& hook) {
    CommunicationStats report;
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      RunConfig config;
      config.ddp.shard_optimizer = true;
      config.ddp.comm_hook = hook;
      Accelerator accelerator(config, world);
      torch::nn::Linear net(64, 31);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      auto [model, optimizer] = accelerator.prepare(net, sgd);
      for (int step = 0; step < 3; ++step) {
        accelerator.backward(model->forward(torch::ones({2, 64})).pow(2).mean());
        optimizer.step();
        optimizer.zero_grad();
      }
      if (world->rank() == 0) report = model.strategy().communication_stats();
    });
    return report;
  };
  const std::int64_t bytes = 4 * (64 * 31 + 31);
  const CommunicationStats plain = report_with("no"), half = report_with("fp16");
  EXPECT_EQ(plain.pipeline, "no hook, sharded optimizer");
  EXPECT_EQ(plain.bytes_per_step, bytes);
  EXPECT_EQ(plain.bytes_sent, 3 * bytes);
  ASSERT_EQ(plain.stages.size(), 2u);
  EXPECT_EQ(plain.stages[0].bytes, 3 * bytes / 2);
  EXPECT_EQ(plain.stages[1].stage, "parameters");
  EXPECT_EQ(plain.stages[1].bytes, 3 * bytes / 2);
  EXPECT_EQ(half.pipeline, "fp16, sharded optimizer");
  EXPECT_EQ(half.bytes_per_step, bytes / 4 + bytes / 2) << "parameters are sent in full precision";
  EXPECT_EQ(half.bytes_sent, 3 * half.bytes_per_step);
}

TEST(OptimizerShards, LogTheExtraGatherOfHooksThatCannotBeHalved) {
  const Messages messages;
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.ddp.shard_optimizer = true;
    config.ddp.comm_hook = "power_sgd";
    Accelerator accelerator(config, world);
    torch::nn::Linear net(1000, 500);
    accelerator.prepare(net);
  });
  EXPECT_THAT(
      messages.text(),
      HasSubstr("[ddp] shard_optimizer: power_sgd averages whole gradients on every rank; gathering the "
                "parameters therefore adds 1 MB to each step"));
}

/// Parameters after several backward passes, some of which communicate, without zero_grad in between.
at::Tensor after_backwards(bool shards, const std::vector<bool>& communicate, bool unused = false) {
  at::Tensor result;
  run_ranks(3, [&](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.ddp.shard_optimizer = shards;
    config.ddp.find_unused_parameters = unused;
    Accelerator accelerator(config, world);
    Net net;
    torch::optim::SGD sgd(trained(net), 0.05);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    std::int64_t batch = 0;
    for (int step = 0; step < 2; ++step) {
      for (const bool communicates : communicate) {
        const bool uses_spare = !unused || batch % 2 == 0;
        const auto backward = [&, &model = model] {
          accelerator.backward(loss_of(model->forward(inputs_of(world->rank(), batch++), uses_spare)));
        };
        if (communicates)
          backward();
        else
          model.no_sync(backward);
      }
      optimizer.step();
      optimizer.zero_grad();
    }
    if (world->rank() == 0) result = flat_parameters(net);
  });
  return result;
}

TEST(OptimizerShards, AccumulateAveragesOverSeveralBackwards) {
  for (const std::vector<bool>& communicate :
       {std::vector<bool>{true, true, true}, {true, false, true}, {false, true, false, true}})
    EXPECT_LT(
        (after_backwards(true, communicate) - after_backwards(false, communicate)).abs().max().item<double>(),
        1e-6);
  EXPECT_LT((after_backwards(true, {true, true}, true) - after_backwards(false, {true, true}, true))
                .abs()
                .max()
                .item<double>(),
            1e-6)
      << "a parameter that the second one does not reach keeps the average of the first";
}

struct WithoutGradient : torch::autograd::Function<WithoutGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list) {
    return {at::Tensor()};
  }
};

struct WeightImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x, bool with_gradient) {
    return (x * (with_gradient ? weight : WithoutGradient::apply(weight))).sum();
  }
  at::Tensor weight = register_parameter("weight", torch::ones({4}));
};
TORCH_MODULE(Weight);

TEST(OptimizerShards, KeepAnAverageWhenAutogradDeliversNoGradient) {
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.ddp.shard_optimizer = true;
    Accelerator accelerator(config, world);
    Weight net;
    torch::optim::SGD sgd(net->parameters(), 1);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    const at::Tensor x = torch::full({4}, 1.0 + 2 * world->rank());  // 2 on average
    const auto backward = [&, &model = model](bool with_gradient) {
      accelerator.backward(model->forward(x, with_gradient));
    };
    backward(true);
    model.no_sync([&] { backward(false); });
    backward(true);
    optimizer.step();
    EXPECT_TRUE(net->weight.detach().equal(torch::full({4}, 1. - 2 * 2))) << net->weight;
  });
}

TEST(GradientShares, ForgetAnAverageWhoseParameterHasLostItsGradient) {
  const at::Tensor weight = torch::zeros({4}, torch::requires_grad());
  GradientShares shares({"weight"}, {weight}, /*rank=*/0, /*ranks=*/2);
  weight.mutable_grad() = torch::ones({4});
  shares.before_average();
  shares.after_average();
  shares.before_gradient(0);  // puts the average aside
  weight.mutable_grad() = torch::ones({4});
  weight.mutable_grad().reset();  // as zero_grad of the model that prepare() was given does
  EXPECT_FALSE(shares.own_gradient(0).defined());
  shares.before_average();
  shares.after_average();
  EXPECT_FALSE(weight.grad().defined());
}

TEST(OptimizerShards, ShowLocalGradientsOutsideTheRanksOwnShare) {
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.ddp.shard_optimizer = true;
    Accelerator accelerator(config, world);
    torch::nn::Linear net(torch::nn::LinearOptions(4, 1).bias(false));
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    accelerator.backward(model->forward(torch::full({1, 4}, 1.0 + 2 * world->rank())).sum());
    EXPECT_TRUE(net->weight.grad().flatten().equal(world->rank() == 0 ? torch::tensor({2.f, 2.f, 1.f, 1.f})
                                                                      : torch::tensor({3.f, 3.f, 2.f, 2.f})));
    const at::Tensor before = net->weight.detach().clone();
    optimizer.step();
    EXPECT_TRUE(net->weight.detach().allclose(before - 0.2));
    EXPECT_EQ(net->weight.grad().sizes(), net->weight.sizes()) << "whole again";
  });
}

TEST(OptimizerShards, TakeTheHookThatAProgramRegisters) {
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.ddp.shard_optimizer = true;
    Accelerator accelerator(config, world);
    torch::nn::Linear net(torch::nn::LinearOptions(4, 1).bias(false));
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    model.register_comm_hook(
        HookContext{model.ddp().hook_context()},
        [](HookContext& context, GradBucket bucket) { return context.comm->all_reduce(bucket.buffer()); });
    accelerator.backward(model->forward(torch::ones({1, 4})).sum());
    EXPECT_TRUE(net->weight.grad().eq(2).all().item<bool>()) << "the hook's sum, whole";
    const at::Tensor before = net->weight.detach().clone();
    optimizer.step();
    EXPECT_TRUE(net->weight.detach().allclose(before - 0.2));
  });
}

TEST(OptimizerShards, WarnOfClippingByTheNormOfOneShare) {
  const std::string warning =
      "[ddp] shard_optimizer: the gradient of 'weight' was changed between the backward and the step. Each "
      "rank has the averages of its share alone, so that is right only if every element was treated by "
      "itself: clip the norm of gradients with accelerator.clip_grad_norm, not with "
      "torch::nn::utils::clip_grad_norm_";
  for (const bool by_torch : {true, false}) {
    const Messages messages;
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      RunConfig config;
      config.ddp.shard_optimizer = true;
      Accelerator accelerator(config, world);
      torch::nn::Linear net(torch::nn::LinearOptions(6, 2).bias(false));
      torch::optim::SGD sgd(net->parameters(), 0.1);
      auto [model, optimizer] = accelerator.prepare(net, sgd);
      accelerator.backward(model->forward(torch::ones({1, 6})).sum());
      if (by_torch)
        torch::nn::utils::clip_grad_norm_(net->parameters(), 0.1);
      else
        accelerator.clip_grad_norm(net->parameters(), 0.1);
      optimizer.step();
    });
    if (by_torch)
      EXPECT_THAT(messages.text(), HasSubstr(warning));
    else
      EXPECT_THAT(messages.text(), Not(HasSubstr("was changed")));
  }
}

TEST(OptimizerShards, WarnOfAnOptimizerThatWasNotPrepared) {
  const Messages messages;
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.ddp.shard_optimizer = true;
    Accelerator accelerator(config, world);
    torch::nn::Linear net(6, 2);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto model = accelerator.prepare(net);
    for (int step = 0; step < 2; ++step) {
      accelerator.backward(model->forward(torch::ones({1, 6})).sum());
      sgd.step();
      sgd.zero_grad();
    }
  });
  EXPECT_THAT(
      messages.text(),
      HasSubstr("[ddp] shard_optimizer: averaged gradients were dropped, and no optimizer that "
                "prepare() returned has stepped the model. Step the optimizer that prepare() returned: "
                "a step of any other leaves "
                "the ranks with different parameters, since each has the averages of its share alone"));
}

/// An optimizer that hookline does not know.
class Own : public torch::optim::Optimizer {
 public:
  explicit Own(std::vector<at::Tensor> parameters)
      : Optimizer(std::move(parameters), std::make_unique<torch::optim::SGDOptions>(0.05)) {}
  at::Tensor step(LossClosure) override { return {}; }
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}
};

TEST(OptimizerShards, RefuseWhatNeedsWholeTensors) {
  const std::string message =
      "LBFGS can't be sharded: it computes with all gradients at once, and each rank has the averages of its "
      "share of them. Use SGD, Adam, AdamW, Adagrad or RMSprop, or set [ddp] shard_optimizer = false";
  const Messages messages;
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.ddp.shard_optimizer = true;
    Accelerator accelerator(config, world), another(config, world), third(config, world);
    torch::nn::Linear net(6, 2);
    torch::optim::LBFGS lbfgs(net->parameters());
    EXPECT_EQ(failure_of([&] { accelerator.prepare(net, lbfgs); }), message);
    EXPECT_EQ(failure_of([&] { another.prepare(lbfgs, net); }), message);
    Own own(net->parameters());
    third.prepare(net, own);
  });
  EXPECT_THAT(
      messages.text(),
      HasSubstr("[ddp] shard_optimizer shards an optimizer whose class is the program's own: it is given "
                "this rank's piece of each parameter, flat, which is right only if it treats every "
                "element by itself"));
}

TEST(OptimizerShards, RefuseParametersThatCannotBeCut) {
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.ddp.shard_optimizer = true;
    Accelerator accelerator(config, world);
    torch::nn::Linear net(6, 2);
    net->weight.set_data(torch::ones({2, 12}).narrow(1, 0, 6));
    EXPECT_EQ(failure_of([&] { accelerator.prepare(net); }),
              "[ddp] shard_optimizer: the parameter 'weight' has gaps in memory, and can't be cut into the "
              "ranks' shares: make it contiguous, or set shard_optimizer = false");
    Accelerator second(config, world);
    torch::nn::Linear other(6, 2);
    torch::optim::SGD sgd(other->parameters(), 0.1);
    auto [model, optimizer] = second.prepare(other, sgd);
    other->weight.set_data(torch::ones({6, 2}).t());
    EXPECT_EQ(failure_of([&, &optimizer = optimizer] { optimizer.step(); }),
              "the parameter 'weight' was given other sizes or another memory layout after its optimizer was "
              "sharded ([ddp] shard_optimizer): change a parameter's values in place");
  });
}

TEST(OptimizerShards, FailEveryRankWhereRanksStepDifferentParameters) {
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    RunConfig config;
    config.ddp.shard_optimizer = true;
    Accelerator accelerator(config, world);
    torch::nn::Linear net(6, 2);
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    accelerator.backward(model->forward(torch::ones({1, 6})).sum());
    if (world->rank() == 1) net->bias.mutable_grad().reset();
    EXPECT_THAT(
        failure_of<RunFailed>([&, &optimizer = optimizer] { optimizer.step(); }),
        HasSubstr(
            "the ranks stepped different parameters of a sharded optimizer: rank 0 stepped 2 parameters "
            "of optimizer 1, and rank 1 stepped 1 parameter of optimizer 1. A parameter without a "
            "gradient is not stepped: every rank must step the same optimizers in the same order, with "
            "gradients for the same parameters"));
  });
}

TEST(OptimizerShards, TrainTwoModelsByTwoOptimizers) {
  const auto train_both = [](bool shards) {
    at::Tensor result;
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      RunConfig config;
      config.ddp.shard_optimizer = shards;
      Accelerator accelerator(config, world);
      torch::nn::Linear maker(5, 7), judge(7, 1);  // fixed weights: the rank threads share one random stream
      for (const auto& module : {maker, judge}) {
        const torch::NoGradGuard no_grad;
        module->weight.copy_(torch::sin(torch::arange(module->weight.numel())).view(module->weight.sizes()));
        module->bias.zero_();
      }
      torch::optim::Adam of_maker(maker->parameters(), 0.01);
      torch::optim::SGD of_judge(judge->parameters(), 0.01);
      auto [made, judged, first, second] = accelerator.prepare(maker, judge, of_maker, of_judge);
      for (std::int64_t batch = 0; batch < 4; ++batch) {
        const at::Tensor x =
            torch::sin(torch::arange(10).to(torch::kFloat) + batch + world->rank()).view({2, 5});
        accelerator.backward(judged->forward(made->forward(x).detach()).mean());
        second.step();
        second.zero_grad();
        accelerator.backward(judged->forward(made->forward(x)).pow(2).mean());
        first.step();
        first.zero_grad();
        second.zero_grad();
      }
      const at::Tensor own = torch::cat({maker->weight.detach().flatten(), judge->weight.detach().flatten()});
      for (const at::Tensor& other : world->all_gather(own)) EXPECT_TRUE(other.equal(own));
      if (world->rank() == 0) result = own;
    });
    return result;
  };
  EXPECT_TRUE(train_both(true).equal(train_both(false)));
}

}  // namespace
}  // namespace hookline
