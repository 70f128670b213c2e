// Fused optimizer steps: torch's results, regardless of an element's position, with state kept in the
// optimizer.
#include "parallel/model/fused_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/failure.h"

namespace hookline {
namespace {

using detail::fused_step_of;
using testing::failure_of;
using ::testing::HasSubstr;
using OptimizerPtr = std::unique_ptr<torch::optim::Optimizer>;
using Tensors = std::vector<at::Tensor>;

struct Kind {
  std::string name;
  std::function<OptimizerPtr(const Tensors&)> make;
};

const std::vector<Kind>& kinds() {
  namespace optim = torch::optim;
  static const auto sgd = [](const optim::SGDOptions& options) {
    return [options](const Tensors& p) -> OptimizerPtr { return std::make_unique<optim::SGD>(p, options); };
  };
  static const auto adam = [](const optim::AdamOptions& options) {
    return [options](const Tensors& p) -> OptimizerPtr { return std::make_unique<optim::Adam>(p, options); };
  };
  static const auto adamw = [](const optim::AdamWOptions& options) {
    return [options](const Tensors& p) -> OptimizerPtr { return std::make_unique<optim::AdamW>(p, options); };
  };
  static const std::vector<Kind> all = {
      {"SGD", sgd(optim::SGDOptions(0.1))},
      {"SGD with weight decay", sgd(optim::SGDOptions(0.1).weight_decay(0.01))},
      {"SGD with momentum", sgd(optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01))},
      {"SGD with dampening", sgd(optim::SGDOptions(0.1).momentum(0.9).dampening(0.2))},
      {"SGD with Nesterov's momentum", sgd(optim::SGDOptions(0.1).momentum(0.9).nesterov(true))},
      {"Adam", adam(optim::AdamOptions(0.01))},
      {"Adam with weight decay", adam(optim::AdamOptions(0.01).weight_decay(0.1).amsgrad(true))},
      {"AdamW", adamw(optim::AdamWOptions(0.01))},
      {"AdamW with AMSGrad", adamw(optim::AdamWOptions(0.01).weight_decay(0.1).amsgrad(true))}};
  return all;
}

const std::vector<std::vector<std::int64_t>> kShapes = {{64}, {}, {3}, {17, 5}, {128, 33}, {0}, {2, 3, 4, 5}};

at::Generator seeded(std::uint64_t seed) { return at::detail::createCPUGenerator(seed); }

Tensors parameters(at::ScalarType dtype = at::kFloat) {
  Tensors made;
  auto random = seeded(5);
  for (const auto& shape : kShapes) {
    at::Tensor values = torch::randn(shape, random).to(dtype);
    if (shape.size() == 4) values = values.contiguous(at::MemoryFormat::ChannelsLast);
    made.push_back(values.requires_grad_());
  }
  return made;
}

void give_gradients(const Tensors& to, int step) {
  auto random = seeded(100 + static_cast<std::uint64_t>(step));
  for (const at::Tensor& parameter : to)
    parameter.mutable_grad() =
        torch::empty_like(parameter).copy_(torch::randn(parameter.sizes(), random)).detach();
}

double difference(const Tensors& a, const Tensors& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].numel() > 0)
      most = std::max(
          most, (a[i].detach().to(at::kDouble) - b[i].detach().to(at::kDouble)).abs().max().item<double>());
  return most;
}

TEST(FusedStep, MatchesTorchsOptimizers) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const double tolerance = dtype == at::kDouble ? 1e-12 : 2e-6;
    for (const Kind& kind : kinds()) {
      const Tensors fused = parameters(dtype), plain = parameters(dtype);
      const OptimizerPtr of_fused = kind.make(fused), of_plain = kind.make(plain);
      const auto step = fused_step_of(*of_fused, "yes");
      for (int i = 0; i < 20; ++i) {
        give_gradients(fused, i);
        give_gradients(plain, i);
        EXPECT_TRUE(step());
        of_plain->step();
      }
      EXPECT_LE(difference(fused, plain), tolerance) << kind.name << ", " << dtype;
      EXPECT_GT(difference(fused, parameters(dtype)), tolerance) << kind.name;
    }
  }
}

// A sharded model's optimizer holds the same elements in different tensors.
TEST(FusedStep, GivesAnElementTheSameBitsWhereverItLies) {
  for (const Kind& kind : kinds()) {
    const at::Tensor all = torch::randn({10'007}, seeded(1));
    const auto train = [&](const std::vector<std::int64_t>& cuts) {
      Tensors pieces;
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
        pieces.push_back(all.slice(0, cuts[i], cuts[i + 1]).clone().requires_grad_());
      const OptimizerPtr optimizer = kind.make(pieces);
      const auto step = fused_step_of(*optimizer, "yes");
      for (int i = 0; i < 10; ++i) {
        const at::Tensor gradient = torch::randn({10'007}, seeded(50 + static_cast<std::uint64_t>(i)));
        for (std::size_t k = 0; k < pieces.size(); ++k)
          pieces[k].mutable_grad() = gradient.slice(0, cuts[k], cuts[k + 1]).clone();
        step();
      }
      return torch::cat(pieces).detach();
    };
    std::vector<std::int64_t> many = {0};
    for (std::int64_t cut = 7; cut < 10'007; cut += 13) many.push_back(cut);
    many.push_back(10'007);
    const at::Tensor whole = train({0, 10'007});
    EXPECT_TRUE(whole.equal(train(many))) << kind.name;
    EXPECT_TRUE(whole.equal(train({0, 1, 5000, 10'007}))) << kind.name;
  }
}

TEST(FusedStep, AlternatesWithTheOptimizersOwnSteps) {
  for (const Kind& kind : kinds()) {
    const Tensors mixed = parameters(), plain = parameters();
    const OptimizerPtr of_mixed = kind.make(mixed), of_plain = kind.make(plain);
    const auto step = fused_step_of(*of_mixed, "auto");
    for (int i = 0; i < 12; ++i) {
      give_gradients(mixed, i);
      give_gradients(plain, i);
      // One tensor gets its first gradient later than the others.
      if (i < 3) mixed[0].mutable_grad() = plain[0].mutable_grad() = at::Tensor();
      if (i % 3 == 0) {
        of_mixed->step();
      } else {
        EXPECT_TRUE(step());
      }
      of_plain->step();
    }
    EXPECT_LE(difference(mixed, plain), 2e-6) << kind.name;
  }
}

TEST(FusedStep, LeavesToTheOptimizerWhatTheKernelsCannotTake) {
  const at::Tensor parameter = torch::ones({4, 6}).requires_grad_();
  torch::optim::SGD sgd({parameter}, 0.5);
  parameter.mutable_grad() = torch::ones({6, 4}).t();
  EXPECT_EQ(failure_of([&] { fused_step_of(sgd, "yes")(); }),
            "[training] fused_optimizer = \"yes\": torch's fused kernels of SGD can't step this model: a "
            "gradient, or what "
            "the optimizer keeps, is of another dtype, device or memory layout than its parameter; set "
            "fused_optimizer = "
            "\"auto\"");
  const auto step = fused_step_of(sgd, "auto");
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(step());
  EXPECT_FALSE(step());
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      ::testing::MatchesRegex("hookline: SGD steps tensor by tensor, which takes longer: [^\n]* of SGD "
                              "can't step this model: a gradient, [^\n]*\n"));
  EXPECT_TRUE(parameter.equal(torch::ones({4, 6}))) << "nothing has changed";
}

// torch 2.11's fused SGD silently does nothing to these on a CPU.
TEST(FusedStep, LeavesHalfPrecisionOnTheCpuToTheOptimizer) {
  for (const Kind& kind : kinds()) {
    const Tensors values = parameters(at::kBFloat16);
    const OptimizerPtr optimizer = kind.make(values);
    give_gradients(values, 0);
    EXPECT_FALSE(fused_step_of(*optimizer, "auto")()) << kind.name;
    EXPECT_EQ(difference(values, parameters(at::kBFloat16)), 0);
  }
}

TEST(FusedStep, LeavesToTheOptimizerAParameterThatIsInItTwice) {
  const at::Tensor parameter = torch::ones({20}).requires_grad_();
  torch::optim::SGD sgd({parameter, parameter}, 0.1);
  parameter.mutable_grad() = torch::ones({20});
  EXPECT_EQ(failure_of([&] { fused_step_of(sgd, "yes")(); }),
            "[training] fused_optimizer = \"yes\": torch's fused kernels of SGD can't step this model: a "
            "parameter is in the "
            "optimizer twice; set fused_optimizer = \"auto\"");
  EXPECT_FALSE(fused_step_of(sgd, "auto")());
}

// As when training two networks, where the second loss was computed before the first network's step.
TEST(FusedStep, LetsAutogradNoticeThatSavedTensorsHaveChanged) {
  for (const Kind& kind : kinds()) {
    const at::Tensor weight = torch::ones({16}).requires_grad_(), input = torch::ones({16}).requires_grad_();
    const OptimizerPtr optimizer = kind.make({weight});
    const auto version = weight._version();
    weight.mutable_grad() = torch::ones({16});
    EXPECT_TRUE(fused_step_of(*optimizer, "yes")());
    const bool is_sgd = kind.name.starts_with("SGD");  // torch::optim's own step does not bump it either
    EXPECT_EQ(weight._version() > version, !is_sgd) << kind.name;
    const at::Tensor loss = (weight * input).sum();
    fused_step_of(*optimizer, "yes")();
    if (!is_sgd) {
      EXPECT_THROW(loss.backward(), c10::Error) << kind.name;
    }
  }
}

TEST(FusedStep, IgnoresStridesOfDimensionsOfSizeOne) {
  const at::Tensor parameter = torch::ones({8, 1}).requires_grad_(),
                   plain = torch::ones({8, 1}).requires_grad_();
  torch::optim::AdamW adamw({parameter}, torch::optim::AdamWOptions()),
      expected({plain}, torch::optim::AdamWOptions());
  parameter.mutable_grad() = torch::ones({1, 8}).t();
  plain.mutable_grad() = torch::ones({8, 1});
  ASSERT_NE(parameter.grad().strides(), parameter.strides());
  EXPECT_TRUE(fused_step_of(adamw, "yes")());
  expected.step();
  EXPECT_TRUE(torch::allclose(parameter, plain));
}

class OwnAdam : public torch::optim::Adam {
 public:
  using Adam::Adam;
};

TEST(FusedStep, SupportsOnlyTorchsOwnClasses) {
  const at::Tensor parameter = torch::ones({4}).requires_grad_();
  OwnAdam own({parameter}, torch::optim::AdamOptions());
  torch::optim::RMSprop other({parameter}, torch::optim::RMSpropOptions());
  torch::optim::Adam adam({parameter}, torch::optim::AdamOptions());
  EXPECT_FALSE(fused_step_of(own, "auto"));
  EXPECT_FALSE(fused_step_of(other, "auto"));
  EXPECT_FALSE(fused_step_of(adam, "no"));
  EXPECT_TRUE(fused_step_of(adam, "auto"));
  EXPECT_EQ(failure_of([&] { fused_step_of(other, "yes"); }),
            "[training] fused_optimizer = \"yes\": torch has fused kernels for its SGD, Adam and AdamW, and "
            "this optimizer is "
            "another one; set fused_optimizer = \"auto\"");
}

}  // namespace
}  // namespace hookline
