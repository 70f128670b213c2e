// Tests on a GPU; each of them needs one. Several ranks share it over Gloo, since NCCL needs a GPU per rank.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/visible_gpus.h"
#include "hooks/numerics/low_rank.h"
#include "hooks/registry/registry.h"
#include "parallel/hookline.h"
#include "parallel/world/placement.h"
#include "tests/hooks/chosen_gradients.h"
#include "tests/support/failure.h"
#include "tests/support/one_matrix.h"
#include "tests/support/process.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::add_and_multiply;
using testing::failure_of;
using testing::GivenGradients;
using testing::GivenGradientsModel;
using ::testing::HasSubstr;
using testing::multiply_transposed;
using testing::run_ranks;

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
  }

  static Placement over(const std::string& backend) {
    LaunchConfig config;
    config.device = "cuda";
    config.backend = backend;
    return place_rank(config, 0, 1);
  }
};

at::Tensor random(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed), torch::kDouble).to(dtype);
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.cpu().to(at::kDouble), y = b.cpu().to(at::kDouble);
  return (x - y).norm().item<double>() / std::max(y.norm().item<double>(), 1e-30);
}

TEST_F(Gpu, HoldsARankWithTheRequestedBackend) {
  EXPECT_EQ(over("auto").device, c10::Device(c10::kCUDA, 0));
  EXPECT_NE(over("auto").nccl, nullptr);
  EXPECT_EQ(over("gloo").nccl, nullptr);
  LaunchConfig config;
  config.backend = "nccl";
  EXPECT_THAT(failure_of([&] { place_rank(config, 0, visible_gpus() + 1); }),
              HasSubstr("[launch] backend = \"nccl\" needs a GPU for each rank; GPUs: "));
  config.backend = "auto";
  EXPECT_EQ(place_rank(config, 0, visible_gpus() + 1).nccl, nullptr);
}

TEST_F(Gpu, MultipliesAsTheCpuDoes) {
  over("gloo");
  for (const auto& [dtype, tolerance] :
       {std::pair(at::kFloat, 1e-5), {at::kDouble, 1e-13}, {at::kHalf, 2e-3}, {at::kBFloat16, 1.6e-2}}) {
    for (const auto& [n, m, rank] : {std::tuple(1, 1, 1), {5, 3, 2}, {300, 70, 3}, {64, 1025, 5}}) {
      SCOPED_TRACE(std::string(c10::toString(dtype)) + " " + std::to_string(n) + "x" + std::to_string(m));
      const at::Tensor matrix = random({n, m}, dtype, 1), added = random({n, m}, dtype, 2);
      const at::Tensor q = random({rank, m}, dtype, 3), p = random({rank, n}, dtype, 4);
      const auto on_both = [&](const std::function<at::Tensor(at::Device)>& compute) {
        EXPECT_LE(distance(compute(at::kCUDA), compute(at::kCPU)), tolerance);
      };
      on_both([&](at::Device device) {
        at::Tensor sum = matrix.to(device, dtype, false, true),
                   product = torch::empty({rank, n}, sum.options());
        add_and_multiply(sum, added.to(device), q.to(device), product);
        return torch::cat({product.flatten(), sum.flatten()});
      });
      on_both([&](at::Device device) {
        at::Tensor product = torch::empty({rank, m}, q.to(device).options());
        multiply_transposed(matrix.to(device), p.to(device), product);
        return product;
      });
    }
  }
}

TEST_F(Gpu, MultipliesMatricesOfOneSizeTogether) {
  over("gloo");
  // In memory order: three equally spaced matrices, one further away, one of another size, and two with space
  // for a bias between them.
  Matrices matrices;
  std::int64_t offset = 0, p_offset = 0, q_offset = 0;
  const auto add = [&](std::int64_t n, std::int64_t m, std::int64_t gap) {
    matrices.push_back({offset, n, m, 2, p_offset, q_offset});
    offset += n * m + gap;
    p_offset += 2 * n;
    q_offset += 2 * m;
  };
  for (const std::int64_t gap : {0, 0, 5, 3}) add(30, 20, gap);
  add(20, 30, 0);
  for (const std::int64_t gap : {7, 0}) add(16, 64, gap);
  const auto on = [&](c10::Device device) {
    const at::Tensor bucket = random({offset}, at::kFloat, 1).to(device),
                     sum = random({offset}, at::kFloat, 2).to(device);
    const FactorPair factors{at::empty({p_offset}, sum.options()),
                             random({q_offset}, at::kFloat, 3).to(device)};
    accumulate_and_multiply(matrices, sum, {}, bucket, factors);
    const at::Tensor p = factors.p.clone();
    hookline::multiply_transposed(matrices, sum, factors);
    return std::pair(p, factors.q);
  };
  const auto [p, q] = on(at::kCUDA);
  const auto [expected_p, expected_q] = on(at::kCPU);
  EXPECT_LE(distance(p, expected_p), 1e-5);
  EXPECT_LE(distance(q, expected_q), 1e-5);
}

TEST_F(Gpu, AveragesOverNcclWithEveryHookAndWrapper) {
  const Placement placement = over("nccl");
  for (const HookRow& hook : Registry::instance().catalog().hooks()) {
    for (const WrapperRow& wrapper : Registry::instance().catalog().wrappers()) {
      if (!wrapper.dtype.empty() && (!hook.wrappable || hook.half_precision)) continue;
      SCOPED_TRACE(hook.name + " in " + wrapper.name);
      run_ranks(
          1,
          [&](const std::shared_ptr<World>& world) {
            auto module = std::make_shared<GivenGradients>(
                std::vector<std::vector<std::int64_t>>{{64, 64}, {64}, {64, 64}});
            module->to(world->device());
            DdpOptions options;
            options.bucket_limits = {8 * 1024, 8 * 1024};
            GivenGradientsModel model(world, module, options);
            OptionMap hook_options;
            if (!hook.options.empty()) hook_options["start_powerSGD_iter"] = std::int64_t{2};
            if (auto built = Registry::instance().build(hook.name, wrapper.name, hook_options,
                                                        model.ddp().hook_context()))
              model.register_comm_hook(std::move(built));
            for (std::uint64_t step = 0; step < 4; ++step) {
              // Rank-1 matrices with a common row space, which PowerSGD represents exactly.
              const at::Tensor low =
                  random({64, 1}, at::kFloat, step).cuda().matmul(random({1, 64}, at::kFloat, 9).cuda());
              const testing::Tensors given{low, random({64}, at::kFloat, step).cuda(), 2 * low};
              const testing::Tensors result = testing::communicate(model, given);
              // As one matrix, the whole bucket has a higher rank; the conformance test checks it more
              // closely.
              const double tolerance = hook.name == "batched_power_sgd" && step >= 2 ? 2.0 : 0.02;
              for (std::size_t i = 0; i < given.size(); ++i)
                EXPECT_LE(distance(result[i], given[i]), tolerance) << "step " << step;
            }
          },
          placement);
    }
  }
}

/// Trains three layers, two of them units, for a few steps; returns all parameters, unsharded, on the CPU.
at::Tensor trained(const std::string& strategy, const std::string& hook, int ranks,
                   const Placement& placement) {
  at::Tensor result;
  run_ranks(
      ranks,
      [&](const std::shared_ptr<World>& world) {
        RunConfig config;
        config.fsdp = {strategy, hook};
        Accelerator accelerator(config, world);
        torch::nn::Sequential net(FsdpUnit<torch::nn::Linear>(33, 65), torch::nn::Tanh(),
                                  FsdpUnit<torch::nn::Linear>(65, 65), torch::nn::Tanh(),
                                  torch::nn::Linear(65, 7));
        {
          const torch::NoGradGuard no_grad;
          std::uint64_t seed = 0;
          for (auto& parameter : net->parameters())
            parameter.copy_(random(parameter.sizes(), at::kFloat, ++seed) * 0.1);
        }
        torch::optim::AdamW adamw(net->parameters(), 0.01);
        auto [model, optimizer] = accelerator.prepare(net, adamw);
        for (std::uint64_t step = 0; step < 5; ++step) {
          const at::Tensor x =
              random({8, 33}, at::kFloat, 10 * step + static_cast<std::uint64_t>(world->rank()));
          accelerator.backward((model->forward(x.to(world->device())) - 1).pow(2).mean());
          accelerator.clip_grad_norm(model->parameters(), 1.0);
          optimizer.step();
          optimizer.zero_grad();
        }
        model->summon_full_params([&] {
          std::vector<at::Tensor> parts;
          for (const auto& parameter : net->parameters()) parts.push_back(parameter.detach().flatten().cpu());
          if (world->rank() == 0) result = torch::cat(parts);
        });
      },
      placement);
  return result;
}

TEST_F(Gpu, TrainsAShardedModelAsDdpDoes) {
  for (const auto& [backend, ranks] : {std::pair{"gloo", 3}, std::pair{"nccl", 1}}) {
    const Placement placement = over(backend);
    const at::Tensor expected = trained("no_shard", "no", ranks, placement);
    for (const char* strategy : {"full_shard", "shard_grad_op"}) {
      SCOPED_TRACE(std::string(backend) + ", " + strategy);
      EXPECT_LE(distance(trained(strategy, "no", ranks, placement), expected), 1e-4);
      EXPECT_LE(distance(trained(strategy, "fp16", ranks, placement), expected), 0.02);
    }
  }
}

TEST_F(Gpu, NamesTheHookWhenPowerSgdIsGivenNaN) {
  const Placement placement = over("gloo");
  run_ranks(
      1,
      [](const std::shared_ptr<World>& world) {
        auto module = std::make_shared<GivenGradients>(std::vector<std::vector<std::int64_t>>{{64, 64}});
        module->to(world->device());
        GivenGradientsModel model(world, module, DdpOptions());
        model.register_comm_hook(Registry::instance().build(
            "power_sgd", "no", {{"start_powerSGD_iter", std::int64_t{2}}}, model.ddp().hook_context()));
        const at::Tensor good = torch::ones({64, 64}, at::kCUDA);
        for (int step = 0; step < 3; ++step) testing::communicate(model, {good});
        testing::communicate(model, {good / 0 * 0});
        EXPECT_THAT(
            failure_of([&] { testing::communicate(model, {good}); }),
            ::testing::AllOf(HasSubstr("power_sgd can't handle NaN or infinity, "),
                             HasSubstr(", and the gradients of the step before contained one of them")));
      },
      placement);
}

TEST_F(Gpu, MeasuresHowFarAHookIsFromTheAverage) {
  for (const auto& [backend, ranks] : {std::pair{"gloo", 2}, std::pair{"nccl", 1}}) {
    SCOPED_TRACE(backend);
    run_ranks(
        ranks,
        [](const std::shared_ptr<World>& world) {
          const auto errors_of = [&](const char* hook, const char* wrapper, const OptionMap& hook_options) {
            auto module =
                std::make_shared<GivenGradients>(std::vector<std::vector<std::int64_t>>{{64, 64}, {64}});
            module->to(world->device());
            GivenGradientsModel model(world, module, DdpOptions());
            model.register_comm_hook(
                Registry::instance().build(hook, wrapper, hook_options, model.ddp().hook_context()));
            std::map<int, double> errors;
            for (int step = 0; step < 6; ++step) {
              const auto seed = static_cast<std::uint64_t>(10 * step + world->rank());
              testing::communicate(model, {random({64, 64}, at::kFloat, seed).to(world->device()),
                                           random({64}, at::kFloat, seed).to(world->device())});
              if (const auto error = model.strategy().take_compression_error()) errors[step] = *error;
            }
            return errors;
          };
          const auto half = errors_of("allreduce", "fp16", {});
          const auto low = errors_of("power_sgd", "no", {{"start_powerSGD_iter", std::int64_t{2}}});
          for (const int step : {1, 2, 4}) {
            ASSERT_TRUE(half.contains(step) && low.contains(step)) << step;
            EXPECT_GT(half.at(step), 1e-6);
            EXPECT_LT(half.at(step), 2e-3);
            EXPECT_TRUE(step < 2 ? low.at(step) < 1e-5 : low.at(step) > 0.1)
                << step << ": " << low.at(step) << "; one column of 64 random ones, from step 2";
          }
          EXPECT_EQ(half.size(), 3U);
        },
        over(backend));
  }
}

/// Checks the phase times and memory that a run on a GPU records.
void expect_measured(const std::filesystem::path& run) {
  const auto summary = nlohmann::json::parse(testing::read_file(run / "summary.json"));
  const nlohmann::json& phases = summary.at("phase_seconds");
  double sum = 0;
  for (const char* phase : {"forward", "backward", "optimizer"}) {
    EXPECT_GT(phases.at(phase), 0) << phase;
    sum += phases.at(phase).get<double>();
  }
  EXPECT_GE(phases.at("exposed_communication"), 0);
  EXPECT_LT(sum, 10 * summary.at("step_seconds").get<double>()) << "seconds, and both by the same clock";
  EXPECT_GT(summary.at("peak_gpu_memory_bytes"), summary.at("uncompressed_bytes_per_step"))
      << "at least parameters and gradients";
}

TEST_F(Gpu, TrainsDigitsUnderTheLauncher) {
  for (const char* file : {"no.toml", "fp16.toml", "power_sgd.toml", "power_sgd_fp16.toml"}) {
    testing::TemporaryFolder folder;
    testing::ProcessOptions options;
    options.folder = folder.path();
    // Two ranks share the GPU over Gloo.
    options.arguments = {"launch",
                         "--config",
                         std::string(DIGITS_FOLDER) + "/" + file,
                         "--set",
                         "launch.device=cuda",
                         "--set",
                         "launch.processes_per_node=2",
                         "--set",
                         "launch.backend=gloo",
                         DIGITS_PROGRAM};
    options.limit = std::chrono::minutes(3);
    const testing::ProcessResult result = testing::run_process(HOOKLINE_BINARY, options);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, ::testing::ContainsRegex("test accuracy 9[7-9]")) << file;
    expect_measured(folder.path() / "hookline-runs" / "latest");
  }
}

}  // namespace
}  // namespace hookline
