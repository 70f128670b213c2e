#include "libexec/self_test/sharding.h"

#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "base/error.h"
#include "parallel/accelerator.h"
#include "parallel/fsdp/fsdp_unit.h"
#include "parallel/world/same_bits.h"

namespace hookline {
namespace {

constexpr std::int64_t kInputs = 33, kOutputs = 17, kSteps = 3;  // odd, so that ranks have unequal shares
constexpr double kTolerance = 1e-4;                              // of sums in another order, over all steps

struct BlockImpl : torch::nn::Module {
  BlockImpl() { linear = register_module("linear", torch::nn::Linear(kOutputs, kOutputs)); }
  at::Tensor forward(const at::Tensor& x) { return linear->forward(x).tanh(); }
  torch::nn::Linear linear{nullptr};
};
TORCH_MODULE(Block);

/// All weights, one after another, after kSteps steps of SGD with momentum. Each rank has its own inputs.
at::Tensor train(const std::shared_ptr<World>& world, const RunConfig& config) {
  Accelerator accelerator(config, world);
  torch::nn::Sequential net(torch::nn::Linear(kInputs, kOutputs), FsdpUnit<Block>());
  {
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters())
      parameter.copy_(torch::arange(parameter.numel()).sin().view(parameter.sizes()));
  }
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const at::Tensor numbers = torch::arange(8 * kInputs).view({8, kInputs});
    const at::Tensor input = (numbers * (1 + world->rank() + step)).sin().to(world->device());
    optimizer.zero_grad();
    accelerator.backward(model->forward(input).pow(2).mean());
    optimizer.step();
  }
  std::vector<at::Tensor> weights;
  model->summon_full_params([&] {
    for (const at::Tensor& parameter : model->parameters())
      weights.push_back(parameter.detach().reshape({-1}).cpu().clone());
  });
  return torch::cat(weights);
}

}  // namespace

std::vector<ShardingCase> sharding_cases() {
  std::vector<ShardingCase> cases(2);
  cases[0].name = "sharded model";
  cases[0].config.fsdp.sharding_strategy = "full_shard";
  cases[1].name = "sharded optimizer";
  cases[1].config.ddp.shard_optimizer = true;
  return cases;
}

std::string try_sharding(const std::shared_ptr<World>& world, const ShardingCase& each) {
  const at::Tensor wanted = train(world, {}), weights = train(world, each.config);
  const double error = ((weights - wanted).norm() / wanted.norm()).item<double>();
  const bool is_same = same_bits_on_all_ranks(*world, weights.to(world->device()));
  char text[32];
  std::snprintf(text, sizeof text, "%.1g", error);
  const std::string steps = std::to_string(kSteps) + " steps";
  // Not `error > kTolerance`, which is false for NaN.
  if (!(error <= kTolerance))
    throw Error("after " + steps + " the weights are " + text +
                " off those of plain DDP, which is more than rounding");
  if (!is_same)
    throw Error("after " + steps + " rank " + std::to_string(world->rank()) +
                " has other weights than another rank");
  return "after " + steps + " the weights are plain DDP's" +
         (error == 0 ? "" : std::string(" but for rounding, ") + text);
}

}  // namespace hookline
