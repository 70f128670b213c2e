#include "hooks/ddp/power_sgd.h"

#include <c10/core/CPUAllocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hooks/registry/registry.h"
#include "tests/hooks/chosen_gradients.h"
#include "tests/hooks/lagging_hook.h"
#include "tests/support/logged_messages.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::communicate;
using ::testing::ElementsAre;
using testing::GivenGradients;
using testing::GivenGradientsModel;
using testing::mean_of_ranks;
using testing::run_ranks;
using testing::same_on_all_ranks;
using testing::Tensors;

using Shapes = std::vector<std::vector<std::int64_t>>;

OptionMap options(std::int64_t rank, OptionMap others = {}) {
  others.emplace("matrix_approximation_rank", rank);
  others.emplace("start_powerSGD_iter", std::int64_t{2});
  return others;
}

GivenGradientsModel make_model(const std::shared_ptr<World>& world, const Shapes& shapes,
                               const std::string& hook, const OptionMap& hook_options,
                               std::int64_t bucket_bytes = 1 << 24) {
  DdpOptions ddp;
  ddp.bucket_limits = {bucket_bytes, bucket_bytes};
  GivenGradientsModel model(world, std::make_shared<GivenGradients>(shapes), ddp);
  model.register_comm_hook(Registry::instance().build(hook, "no", hook_options, model.ddp().hook_context()));
  return model;
}

Tensors random_gradients(const Shapes& shapes, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  Tensors gradients;
  for (const auto& shape : shapes) gradients.push_back(torch::randn(shape, generator));
  return gradients;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>() / std::max(b.norm().item<double>(), 1e-30);
}

/// Counts tensor allocations of more than a few numbers.
class CountingAllocator : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* real) : real_(real) {}
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes > 256) ++count;
    return real_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return real_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    real_->copy_data(to, from, bytes);
  }

  std::atomic<int> count{0};

 private:
  c10::Allocator* real_;
};

TEST(PowerSgd, AllocatesNoMoreTensorsAfterItsSecondCompressedStep) {
  c10::Allocator* const real = c10::GetCPUAllocator();
  CountingAllocator counting(real);
  constexpr std::uint8_t kForce = 255;
  c10::SetCPUAllocator(&counting, kForce);
  for (const auto& [hook_name, wrapper] : std::vector<std::pair<std::string, std::string>>{
           {"power_sgd", "no"}, {"power_sgd", "fp16"}, {"power_sgd", "bf16"}, {"batched_power_sgd", "no"}}) {
    run_ranks(1, [&](const std::shared_ptr<World>& world) {
      const auto comm =
          std::make_shared<Comm>(0, 1, [&](const std::string& name) { return world->make_group(name); });
      const auto hook = Registry::instance().build(hook_name, wrapper, options(2), {comm});
      const at::Tensor gradients = torch::randn({300 * 200 + 77});
      const std::vector<at::Tensor> parameters{torch::zeros({300, 200}), torch::zeros({77})};
      const std::vector<at::IntArrayRef> shapes{parameters[0].sizes(), parameters[1].sizes()};
      int before = 0;
      for (int step = 0; step < 8; ++step) {
        if (step == 4) before = counting.count;
        c10d::GradBucket bucket(0, 1, gradients, {0, 300 * 200}, {300 * 200, 77}, shapes, parameters,
                                std::nullopt);
        hook->runHook(bucket)->waitAndThrow();
      }
      EXPECT_GT(before, 0);
      EXPECT_EQ(counting.count - before, 0) << hook_name << " in " << wrapper;
    });
  }
  c10::SetCPUAllocator(real, kForce);
}

TEST(PowerSgd, KeepsRanksEqualInManyBucketsWhenRanksLag) {
  const Shapes shapes{{40, 40}, {40},     {64, 20}, {48, 33}, {3},     {40, 40},
                      {40},     {64, 20}, {48, 33}, {7, 5},   {40, 40}};
  for (const std::string hook : {"power_sgd", "batched_power_sgd"}) {
    run_ranks(3, [&](const std::shared_ptr<World>& world) {
      DdpOptions ddp;
      ddp.bucket_limits = {8 * 1024, 8 * 1024};
      GivenGradientsModel model(world, std::make_shared<GivenGradients>(shapes), ddp);
      const auto rank = static_cast<unsigned>(world->rank());
      model.register_comm_hook(std::make_unique<testing::LaggingHook>(
          Registry::instance().build(hook, "no", options(2), model.ddp().hook_context()), rank));
      for (unsigned step = 0; step < 30; ++step) {
        const Tensors applied = communicate(model, random_gradients(shapes, 100 * step + rank));
        for (const at::Tensor& gradient : applied)
          ASSERT_TRUE(gradient.isfinite().all().item<bool>()) << "step " << step;
        for (const at::Tensor& gradient : applied)
          ASSERT_TRUE(same_on_all_ranks(*world, gradient)) << "step " << step;
      }
    });
  }
}

TEST(PowerSgd, ReproducesAMeanOfLowRank) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    const Shapes shapes{{48, 40}, {5}};
    auto model = make_model(world, shapes, "power_sgd", options(2));
    auto generator = at::detail::createCPUGenerator(3);
    const at::Tensor u = torch::randn({48, 2}, generator), v = torch::randn({2, 40}, generator);
    const double own = 1 + 2 * world->rank();
    for (int step = 0; step < 5; ++step) {
      // Both ranks' gradients span the same space with different weights; the short vector is not compressed.
      const at::Tensor weights = torch::tensor({{own, 0.0}, {0.0, 1 / own}}, torch::kFloat);
      const at::Tensor gradient = u.matmul(weights).matmul(v) * (step + 1);
      const Tensors applied = communicate(model, {gradient, torch::full({5}, own)});
      EXPECT_LE(distance(applied[0], mean_of_ranks(*world, gradient)), 1e-4) << "step " << step;
      EXPECT_TRUE(applied[1].eq(2).all().item<bool>()) << "step " << step;
    }
  });
}

TEST(PowerSgd, RecoversAfterStepsWithZeroGradients) {
  for (const std::string hook : {"power_sgd", "batched_power_sgd"}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      const Shapes shapes{{36, 36}};
      auto model = make_model(world, shapes, hook, options(2));
      for (int step = 0; step < 6; ++step) {
        EXPECT_TRUE(communicate(model, {torch::zeros({36, 36})})[0].eq(0).all().item<bool>())
            << "step " << step;
      }
      auto generator = at::detail::createCPUGenerator(3);
      const at::Tensor gradient = torch::randn({36, 2}, generator).matmul(torch::randn({2, 36}, generator));
      const at::Tensor applied = communicate(model, {gradient})[0];
      EXPECT_LE(distance(applied, gradient), 1e-4);
      EXPECT_TRUE(same_on_all_ranks(*world, applied));
    });
  }
}

TEST(PowerSgd, WarnsIfItSavesNothing) {
  for (const std::string hook : {"power_sgd", "batched_power_sgd"}) {
    const testing::Messages messages;
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      auto model = make_model(world, {{4, 4}}, hook, options(4));
      for (int step = 0; step < 4; ++step) communicate(model, {torch::ones({4, 4})});
    });
    EXPECT_THAT(
        messages.text(),
        ::testing::HasSubstr(": compression saves nothing: at least as many elements are sent as without "
                             "it; make the model larger or the rank smaller\n"));
  }
}

TEST(PowerSgd, ReproducesMatricesOfWhichOneIsZero) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto model = make_model(world, {{32, 32}, {32, 32}}, "power_sgd", options(1));
    for (int step = 0; step < 6; ++step) {
      const at::Tensor outer = torch::arange(32).to(torch::kFloat).outer(torch::ones({32}));
      const Tensors applied = communicate(model, {outer * (step % 2), outer * (1 - step % 2)});
      EXPECT_LE((applied[0] - outer * (step % 2)).abs().max().item<double>(), 1e-3) << "step " << step;
      EXPECT_LE((applied[1] - outer * (1 - step % 2)).abs().max().item<double>(), 1e-3) << "step " << step;
    }
  });
}

// The distance between the summed results and the summed true means after `steps` compressed steps.
double lost_over(int steps, bool error_feedback) {
  double lost = 0;
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    const Shapes shapes{{32, 32}};
    auto model = make_model(world, shapes, "power_sgd", options(2, {{"use_error_feedback", error_feedback}}));
    const Tensors own = random_gradients(shapes, 5 + static_cast<std::uint64_t>(world->rank()));
    const at::Tensor mean = mean_of_ranks(*world, own[0]);
    at::Tensor sum = torch::zeros({32, 32});
    for (int step = 0; step < 2 + steps; ++step) {
      const at::Tensor applied = communicate(model, own)[0];
      if (step >= 2) sum += applied;
    }
    if (world->rank() == 0) lost = distance(sum, mean * steps);
  });
  return lost;
}

TEST(PowerSgd, MakesUpForLossesByErrorFeedback) {
  const double soon = lost_over(20, true), later = lost_over(200, true);
  EXPECT_LT(later, soon / 4);
  EXPECT_LT(later, 0.15);
  EXPECT_GT(lost_over(200, false), 0.5) << "without it, the same part of the gradient is lost for good";
}

TEST(PowerSgd, SavesAsErrorWhatTheLastStepLeftOut) {
  for (const std::string hook : {"power_sgd", "batched_power_sgd"}) {
    run_ranks(1, [&](const std::shared_ptr<World>& world) {
      const Shapes shapes{{48, 40}, {5}};  // batched_power_sgd's matrix extends past the bucket
      auto model = make_model(world, shapes, hook, options(2)),
           never_saved = make_model(world, shapes, hook, options(2));
      const auto flat = [](const Tensors& tensors) {
        std::vector<at::Tensor> parts;
        for (const at::Tensor& tensor : tensors) parts.push_back(tensor.flatten());
        return torch::cat(parts);
      };
      const auto error_of = [&](GivenGradientsModel& of) {
        const HookState state = of.ddp().hook()->save_state(of.ddp().buckets());
        const auto error = state.own.find(bucket_key(0, "error"));
        return error == state.own.end() ? at::Tensor() : error->second.narrow(0, 0, 48 * 40 + 5).clone();
      };
      at::Tensor left_out;
      for (unsigned step = 0; step < 8; ++step) {
        const Tensors gradients = random_gradients(shapes, step);
        const Tensors applied = communicate(model, gradients);
        EXPECT_TRUE(flat(applied).equal(flat(communicate(never_saved, gradients)))) << "step " << step;
        // The bucket holds the gradients in order, or in reverse.
        const auto in_bucket = [&](const Tensors& tensors) {
          Tensors ordered;
          const BucketParameters buckets = model.ddp().buckets();
          for (const at::Tensor& parameter : buckets[0])
            ordered.push_back(tensors[parameter.dim() == 2 ? 0 : 1]);
          return flat(ordered);
        };
        const at::Tensor error = error_of(model);
        ASSERT_EQ(error.defined(), step >= 2);
        if (step < 2) continue;
        const at::Tensor sum = left_out.defined() ? left_out + in_bucket(gradients) : in_bucket(gradients);
        EXPECT_TRUE(error.equal(sum - in_bucket(applied))) << hook << ", step " << step;
        EXPECT_TRUE(error.equal(error_of(model))) << "a second time";
        left_out = error;
      }
    });
  }
}

TEST(PowerSgd, ConvergesToTheBestLowRankMatrixOnlyWithWarmStart) {
  for (const bool warm : {true, false}) {
    run_ranks(2, [warm](const std::shared_ptr<World>& world) {
      const Shapes shapes{{32, 32}};
      auto model = make_model(world, shapes, "power_sgd",
                              options(2, {{"use_error_feedback", false}, {"warm_start", warm}}));
      const at::Tensor decay = torch::pow(0.7, torch::arange(32)).to(torch::kFloat);
      const at::Tensor left = std::get<0>(torch::linalg_qr(random_gradients(shapes, 1)[0]));
      const at::Tensor right = std::get<0>(torch::linalg_qr(random_gradients(shapes, 2)[0]));
      const at::Tensor gradient = left.matmul(torch::diag(decay)).matmul(right.t());
      const double least = decay.slice(0, 2).norm().item<double>();
      at::Tensor before, applied;
      for (int step = 0; step < 30; ++step) {
        before = applied;
        applied = communicate(model, {gradient})[0];
      }
      EXPECT_EQ(distance(applied, before) < 1e-3, warm);
      EXPECT_EQ((applied - gradient).norm().item<double>() < 1.001 * least, warm);
      EXPECT_TRUE(same_on_all_ranks(*world, applied));
    });
  }
}

TEST(PowerSgd, CompressesFromTheFirstStepIfItKeepsNoState) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto model = make_model(
        world, {{32, 32}}, "power_sgd",
        {{"start_powerSGD_iter", std::int64_t{0}}, {"use_error_feedback", false}, {"warm_start", false}});
    const at::Tensor outer =
        torch::arange(32).to(torch::kFloat).outer(torch::ones({32})) * (1 + world->rank());
    EXPECT_LE(distance(communicate(model, {outer})[0], mean_of_ranks(*world, outer)), 1e-5);
    EXPECT_EQ(model.ddp().communication_stats().bytes_sent, 4 * (32 + 32));
  });
}

TEST(PowerSgd, GivesTheSameResultWithTensorsBatchedByShape) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    // These sizes of Q fill whole blocks of the random generator, so both variants start from the same Q.
    const Shapes shapes{{40, 32}, {24, 48}, {40, 32}, {9}, {24, 48}};
    auto apart = make_model(world, shapes, "power_sgd", options(2));
    auto batched =
        make_model(world, shapes, "power_sgd", options(2, {{"batch_tensors_with_same_shape", true}}));
    for (unsigned step = 0; step < 8; ++step) {
      const Tensors gradients = random_gradients(shapes, 10 * step + static_cast<unsigned>(world->rank()));
      const Tensors a = communicate(apart, gradients), b = communicate(batched, gradients);
      for (std::size_t i = 0; i < shapes.size(); ++i)
        EXPECT_LE(distance(a[i], b[i]), 1e-5) << step << ", " << i;
    }
  });
}

TEST(PowerSgd, SendsAsManyBytesAsItEstimates) {
  const Shapes shapes{{48, 40}, {40}, {6, 5, 4, 4}, {64, 64}, {}, {101}};
  for (const auto& [hook, wrapper] :
       std::vector<std::pair<std::string, std::string>>{{"power_sgd", "no"},
                                                        {"power_sgd", "fp16"},
                                                        {"batched_power_sgd", "no"},
                                                        {"batched_power_sgd", "bf16"}}) {
    for (const std::int64_t bucket_bytes : {std::int64_t{1} << 24, std::int64_t{4096}}) {
      run_ranks(2, [&](const std::shared_ptr<World>& world) {
        DdpOptions ddp;
        ddp.bucket_limits = {bucket_bytes, bucket_bytes};
        GivenGradientsModel model(world, std::make_shared<GivenGradients>(shapes), ddp);
        model.register_comm_hook(
            Registry::instance().build(hook, wrapper, options(2), model.ddp().hook_context()));
        for (unsigned step = 0; step < 5; ++step) {
          const std::int64_t before = model.ddp().communication_stats().bytes_sent;
          communicate(model, random_gradients(shapes, step));
          const CommunicationStats report = model.ddp().communication_stats();
          const std::int64_t plain = wrapper == "no" ? report.gradient_bytes : report.gradient_bytes / 2;
          EXPECT_EQ(report.first_full_step, 2);
          EXPECT_EQ(report.bytes_sent - before, step < 2 ? plain : report.bytes_per_step)
              << hook << ", step " << step;
          EXPECT_EQ(report.pipeline, hook + "(rank=2, start=2)" + (wrapper == "no" ? "" : " in " + wrapper));
          ASSERT_EQ(report.stages.size(), 2u);
          EXPECT_EQ(report.stages[0].stage, "gradients");
          EXPECT_EQ(report.stages[1].stage, "q");
          EXPECT_EQ(report.stages[0].bytes + report.stages[1].bytes, report.bytes_sent);
          EXPECT_EQ(report.stages[1].bytes > 0, step >= 2);
        }
      });
    }
  }
}

TEST(PowerSgd, PadsABucketToASquare) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    const Shapes shapes{{7, 13}, {10}};  // 101 elements in an 11 by 11 matrix, which rank 11 holds whole
    auto model = make_model(world, shapes, "batched_power_sgd", options(11));
    for (unsigned step = 0; step < 6; ++step) {
      const Tensors own = random_gradients(shapes, 10 * step + static_cast<unsigned>(world->rank()));
      const Tensors applied = communicate(model, own);
      for (std::size_t i = 0; i < own.size(); ++i) {
        EXPECT_LE(distance(applied[i], mean_of_ranks(*world, own[i])), 1e-4) << "step " << step;
      }
    }
    EXPECT_EQ(model.ddp().communication_stats().bytes_per_step, 4 * 2 * 11 * 11);
  });
}

TEST(PowerSgdLayout, CompressesOnlyAboveTheMinimumCompressionRate) {
  PowerSgdOptions wanted;
  wanted.matrix_approximation_rank = 1;
  // (8 + 8) · 1 · 2 < 64 holds; (4 + 4) · 1 · 2 < 16 just fails; vectors are never compressed.
  const PowerSgdLayout layout = per_gradient_layout({{4, 4}, {8, 8}, {100}, {8, 2, 4}, {}}, wanted);
  ASSERT_EQ(layout.matrices.size(), 2u);
  EXPECT_EQ(layout.matrices[0].offset, 16);
  EXPECT_EQ(layout.matrices[1].offset, 16 + 64 + 100);
  EXPECT_EQ(layout.matrices[1].n, 8);
  EXPECT_EQ(layout.matrices[1].m, 8);
  ASSERT_EQ(layout.plain.size(), 3u);
  EXPECT_EQ(layout.plain[2].numel, 1);
  EXPECT_EQ(layout.p_numel, 2 * 8 + 16 + 100 + 1);
  EXPECT_EQ(layout.q_numel, 2 * 8);
  EXPECT_EQ(layout.numel, 16 + 64 + 100 + 64 + 1);
}

TEST(SeedStream, MatchesNumpysRandomState) {
  const auto first = [](std::int64_t seed, std::size_t count) {
    SeedStream stream(seed);
    std::vector<std::uint64_t> drawn;
    while (drawn.size() < count) drawn.push_back(stream.next());
    return drawn;
  };
  // [numpy.random.RandomState(seed).randint(1_000_000_000) …]
  EXPECT_THAT(first(0, 8), ElementsAre(209652396, 398764591, 924231285, 404868288, 441365315, 463622907,
                                       192771779, 417693031));
  EXPECT_THAT(first(7, 4), ElementsAre(327741615, 976413892, 128500249, 296233462));
  EXPECT_THAT(first(4294967295, 4), ElementsAre(419326371, 479346978, 697429004, 269265991));
  EXPECT_EQ(first(0, 1000).back(), 36556993u);
}

TEST(NormalStream, MatchesTorchAfterManualSeed) {
  torch::manual_seed(12);
  NormalStream stream(12);
  EXPECT_TRUE(torch::equal(stream.draw({3, 7}, at::kFloat), torch::randn({3, 7})));
  EXPECT_TRUE(torch::equal(stream.draw({5}, at::kDouble), torch::randn({5}, torch::kDouble)));
  EXPECT_TRUE(torch::equal(stream.draw({4, 9}, at::kHalf), torch::randn({4, 9}, torch::kHalf)));
}

}  // namespace
}  // namespace hookline
