// What every hook that the registry can build must hold to, in every wrapper, on 1 to 4 ranks.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <vector>

#include "hooks/registry.h"
#include "parallel/distributed_module.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::run_ranks;

// Big enough for its middle layer to be compressed at rank 2, with an odd width and a bias, and a scalar parameter.
struct NetImpl : torch::nn::Module {
  NetImpl(at::ScalarType dtype) {
    torch::manual_seed(3);
    first = register_module("first", torch::nn::Linear(17, 131));
    middle = register_module("middle", torch::nn::Linear(131, 257));
    last = register_module("last", torch::nn::Linear(257, 3));
    scale = register_parameter("scale", torch::ones({}));
    to(dtype);
  }
  at::Tensor forward(const at::Tensor& x) { return last(torch::tanh(middle(torch::tanh(first(x))))) * scale; }
  torch::nn::Linear first{nullptr}, middle{nullptr}, last{nullptr};
  at::Tensor scale;
};

struct Case {
  std::string hook, wrapper;
  int ranks;
  bool many_buckets;
  at::ScalarType dtype;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return c.hook + "_in_" + c.wrapper + "_" + std::to_string(c.ranks) + "_ranks_" +
         (c.many_buckets ? "many_buckets_" : "one_bucket_") + c10::toString(c.dtype);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const Registry registry = Registry::built_in();
  for (const HookRow& hook : registry.catalog().hooks()) {
    for (const WrapperRow& wrapper : registry.catalog().wrappers()) {
      const bool wrapped = !wrapper.dtype.empty();
      if (wrapped && (!hook.wrappable || hook.half_precision)) continue;
      for (const int ranks : {1, 2, 3, 4}) {
        for (const bool many_buckets : {false, true}) {
          for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
            cases.push_back({hook.name, wrapper.name, ranks, many_buckets, dtype});
          }
        }
      }
    }
  }
  return cases;
}

OptionMap options_of(const std::string& hook) {
  if (hook == "power_sgd") {
    return {{"matrix_approximation_rank", std::int64_t{2}}, {"start_powerSGD_iter", std::int64_t{2}}};
  }
  if (hook == "batched_power_sgd") {
    return {{"matrix_approximation_rank", std::int64_t{1}}, {"start_powerSGD_iter", std::int64_t{2}}};
  }
  return {};
}

// Relative error of an averaged gradient that comes from rounding alone.
double rounding(const Case& c) {
  const auto of = [](at::ScalarType dtype) {
    return dtype == at::kDouble ? 1e-12 : dtype == at::kFloat ? 1e-5 : dtype == at::kHalf ? 4e-3 : 3e-2;
  };
  double worst = of(c.dtype);
  if (c.hook == "fp16" || c.wrapper == "fp16") worst = std::max(worst, of(at::kHalf));
  if (c.hook == "bf16" || c.wrapper == "bf16") worst = std::max(worst, of(at::kBFloat16));
  return worst;
}

at::Tensor flat(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(tensor.detach().reshape({-1}).to(at::kDouble));
  return torch::cat(parts);
}

at::Tensor gradients_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : module.parameters()) gradients.push_back(parameter.grad());
  return flat(gradients);
}

std::vector<at::Tensor> from_all_ranks(World& world, const at::Tensor& tensor) {
  std::vector<std::vector<at::Tensor>> parts(1);
  for (int i = 0; i < world.size(); ++i) parts[0].push_back(torch::empty_like(tensor));
  std::vector<at::Tensor> input{tensor};
  world.group()->allgather(parts, input)->wait();
  return parts[0];
}

bool same_on_all_ranks(World& world, const at::Tensor& tensor) {
  for (const at::Tensor& other : from_all_ranks(world, tensor)) {
    if (!torch::equal(other, tensor)) return false;
  }
  return true;
}

class Conformance : public ::testing::TestWithParam<Case> {};

TEST_P(Conformance, KeepsRanksEqualAndAveragesWhatItShould) {
  const Case& c = GetParam();
  const bool averages = Registry::built_in().catalog().find_hook(c.hook)->averages;
  const bool low_rank = c.hook.find("power_sgd") != std::string::npos;
  run_ranks(c.ranks, [&](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<NetImpl>(c.dtype);
    DdpOptions ddp_options;
    constexpr std::int64_t kWholeModel = 1 << 24, kOneOrTwoTensors = 8 * 1024;
    const std::int64_t bucket_bytes = c.many_buckets ? kOneOrTwoTensors : kWholeModel;
    ddp_options.bucket_limits = {bucket_bytes, bucket_bytes};
    DistributedModule<NetImpl> model(world, net, ddp_options);
    auto hook = Registry::instance().build(c.hook, c.wrapper, options_of(c.hook), model.ddp().hook_context());
    if (hook) model.register_comm_hook(std::move(hook));

    auto reference = std::make_shared<NetImpl>(c.dtype);
    auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(world->rank()));
    for (int step = 0; step < 6; ++step) {
      // Step 4 gives equal inputs to all ranks; step 5 gives gradients that are zero.
      if (step == 4) generator = at::detail::createCPUGenerator(99);
      const at::Tensor input = torch::randn({8, 17}, generator).to(c.dtype);
      const double weight = step == 5 ? 0.0 : 1.0;
      const auto loss_of = [&](const at::Tensor& output) { return output.pow(2).mean() * weight; };

      reference->zero_grad();
      {
        torch::NoGradGuard no_grad;
        for (std::size_t i = 0; i < net->parameters().size(); ++i) {
          reference->parameters()[i].copy_(net->parameters()[i]);
        }
      }
      loss_of(reference->forward(input)).backward();
      const std::vector<at::Tensor> local = from_all_ranks(*world, gradients_of(*reference));
      at::Tensor mean = torch::zeros_like(local[0]);
      for (const at::Tensor& one : local) mean += one / c.ranks;

      model.zero_grad();
      loss_of(model.forward(input)).backward();
      const at::Tensor gradients = gradients_of(*net);
      ASSERT_TRUE(gradients.isfinite().all().item<bool>()) << "step " << step;
      const bool compresses = low_rank && step >= 2;
      if (!averages) {
        EXPECT_TRUE(torch::equal(gradients, local[static_cast<std::size_t>(world->rank())]))
            << "step " << step;
      } else if (!compresses) {
        const double error = (gradients - mean).norm().item<double>();
        EXPECT_LE(error, rounding(c) * std::max(mean.norm().item<double>(), 1e-12)) << "step " << step;
      } else if (step < 5) {
        // A projection: nearer to the (error-corrected) mean than nothing is.
        EXPECT_GT(gradients.norm().item<double>(), 0) << "step " << step;
      }
      EXPECT_TRUE(!averages || same_on_all_ranks(*world, gradients)) << "step " << step;
      torch::NoGradGuard no_grad;
      for (at::Tensor& parameter : net->parameters()) parameter.sub_(0.05 * parameter.grad());
      EXPECT_TRUE(!averages || same_on_all_ranks(*world, flat(net->parameters()))) << "step " << step;
    }
    const WireReport report = model.ddp().wire_report();
    EXPECT_EQ(report.steps, 6);
    EXPECT_EQ(report.bytes_sent == 0, c.hook == "noop");
    EXPECT_TRUE(!low_rank || report.bytes_per_step < report.gradient_bytes / 2);
  });
}

INSTANTIATE_TEST_SUITE_P(EveryHook, Conformance, ::testing::ValuesIn(all_cases()), name_of);

}  // namespace
}  // namespace hookline
