// Modules that keep parameters of a sharded model, or views of them: correct results, or an error that names
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "parallel/hookline.h"
#include "tests/support/failure.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::failure_of;
using testing::run_ranks;
using ::testing::StartsWith;

RunConfig sharded(const std::string& strategy = "full_shard") {
  RunConfig config;
  config.fsdp.sharding_strategy = strategy;
  return config;
}

at::Tensor values(at::IntArrayRef sizes, double seed) {
  std::int64_t numel = 1;
  for (const std::int64_t size : sizes) numel *= size;
  return torch::sin(torch::arange(numel).to(torch::kFloat) * 0.9 + seed).view(sizes);
}

at::Tensor inputs() { return values({2, 4}, 3); }

/// Multiplies by its weight and keeps a view of it.
struct KeeperImpl : torch::nn::Module {
  KeeperImpl() {
    weight = register_parameter("weight", values({4, 4}, 1));
    bias = register_parameter("bias", values({4}, 2));
    from_constructor = weight.view({16});
  }
  at::Tensor forward(const at::Tensor& x) {
    kept = weight.t();
    return x.matmul(kept) + bias;
  }
  at::Tensor weight, bias, kept, from_constructor;
};
TORCH_MODULE(Keeper);

/// Two units and a scale outside any unit. The forward calls `outside`, which uses parameters that may be
/// sharded at that time: after both units or, without `after_last`, between them.
struct NetImpl : torch::nn::Module {
  using Outside = std::function<at::Tensor(NetImpl&)>;
  explicit NetImpl(Outside outside_in = {}) : outside(std::move(outside_in)) {
    first = register_module("first", FsdpUnit<Keeper>());
    last = register_module("last", FsdpUnit<torch::nn::Linear>(4, 4));
    scale = register_parameter("scale", values({4}, 4));
    const torch::NoGradGuard no_grad;
    last->weight.copy_(values({4, 4}, 5));
    last->bias.copy_(values({4}, 6));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = first->forward(x);
    if (outside && !after_last) y = y + outside(*this);
    y = last->forward(y) * scale;
    if (outside && after_last) y = y + outside(*this);
    return y;
  }
  Outside outside;
  bool after_last = true;
  FsdpUnit<Keeper> first{nullptr};
  FsdpUnit<torch::nn::Linear> last{nullptr};
  at::Tensor scale;
};
TORCH_MODULE(Net);

void step(DistributedModule<NetImpl>& model, torch::optim::SGD& sgd) {
  model->forward(inputs()).sum().backward();
  sgd.step();
  sgd.zero_grad();
}

std::string misuse_of(const std::string& parameter, const std::string& unit) {
  return "the parameter '" + parameter +
         "', or a view of it that was kept, is used while the parameter is not gathered: " +
         "outside of the forward and the backward of " +
         (unit.empty() ? "the model" : "its unit '" + unit + "'") +
         (unit.empty() ? ". Use it in the model's forward, or inside summon_full_params"
                       : ". Register it in each module that uses it, so that it stays whole throughout a "
                         "step, or read it "
                         "inside summon_full_params");
}

struct Mode {
  const char* strategy;
  bool with_gradients;
  int ranks;
};
void PrintTo(const Mode& mode, std::ostream* out) {
  *out << mode.strategy << (mode.with_gradients ? " with" : " without") << " gradients on " << mode.ranks;
}

class KeptParameters : public ::testing::TestWithParam<Mode> {
 protected:
  /// Expects the error `expected` in the first and in a later step, and that the model then continues
  /// normally.
  static void expect_error(const NetImpl::Outside& outside, const std::string& expected,
                           bool after_last = true) {
    const Mode mode = GetParam();
    run_ranks(mode.ranks, [&](const std::shared_ptr<World>& world) {
      for (const int steps_before : {0, 2}) {
        Accelerator accelerator(sharded(mode.strategy), world);
        Net net;
        torch::optim::SGD sgd(net->parameters(), 0.1);
        auto model = accelerator.prepare(net);
        net->after_last = after_last;
        for (int i = 0; i < steps_before; ++i) step(model, sgd);
        net->outside = outside;
        {
          const torch::AutoGradMode gradients(mode.with_gradients);
          EXPECT_EQ(failure_of([&] {
                      const at::Tensor y = model->forward(inputs());
                      if (mode.with_gradients) y.sum().backward();
                    }),
                    expected);
        }
        net->outside = {};
        Net alone;
        torch::optim::SGD own(alone->parameters(), 0.1);
        for (int i = 0; i < steps_before + 2; ++i) {
          own.zero_grad();
          alone->forward(inputs()).sum().backward();
          own.step();
        }
        for (int i = 0; i < 2; ++i) step(model, sgd);
        const torch::NoGradGuard no_grad;
        EXPECT_TRUE(model->forward(inputs()).allclose(alone->forward(inputs()), 1e-5, 1e-5));
      }
    });
  }
  /// SHARD_GRAD_OP keeps the units unsharded between forward and backward.
  static bool is_there_after_its_forward() {
    return std::string(GetParam().strategy) == "shard_grad_op" && GetParam().with_gradients;
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, KeptParameters,
                         ::testing::Values(Mode{"full_shard", true, 2}, Mode{"full_shard", false, 2},
                                           Mode{"shard_grad_op", true, 2}, Mode{"shard_grad_op", false, 2},
                                           Mode{"full_shard", true, 1}, Mode{"full_shard", false, 1}));

TEST_P(KeptParameters, NamesTheParameterOfAViewThatAUnitKeeps) {
  if (is_there_after_its_forward())
    GTEST_SKIP() << "the numbers are right: see AreCorrectWhereTheyStayUnsharded";
  expect_error([](NetImpl& net) { return net.first->kept.sum(); }, misuse_of("first.weight", "first"));
}

TEST_P(KeptParameters, NamesAParameterThatAnotherModuleReads) {
  if (is_there_after_its_forward())
    GTEST_SKIP() << "the numbers are right: see AreCorrectWhereTheyStayUnsharded";
  expect_error([](NetImpl& net) { return net.first->bias.norm(); }, misuse_of("first.bias", "first"));
  expect_error([](NetImpl& net) { return net.last->weight.square().sum(); },
               misuse_of("last.weight", "last"));
}

TEST_P(KeptParameters, NamesAParameterThatIsReadBeforeItIsGathered) {
  expect_error([](NetImpl& net) { return net.last->weight.square().sum(); }, misuse_of("last.weight", "last"),
               /*after_last=*/false);
}

TEST_P(KeptParameters, NamesAParameterWhoseViewAModuleMadeInItsConstructor) {
  expect_error(
      [](NetImpl& net) { return net.first->from_constructor.sum(); },
      "a tensor that was made before prepare() from the parameter 'first.weight' is used, but its memory is "
      "gone: "
      "a sharded model's parameters lie elsewhere. Make a view in the forward that uses it; to keep values, "
      "make a copy, such as weight.clone()");
}

TEST(KeptParameters, AreCorrectWhereTheyStayUnsharded) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    for (const char* strategy : {"full_shard", "shard_grad_op"}) {
      const bool stays = std::string(strategy) == "shard_grad_op";
      const auto outside = [&](NetImpl& net) {
        return stays ? net.scale.norm() + net.first->kept.square().sum() + net.first->bias.norm()
                     : net.scale.norm();
      };
      Accelerator accelerator(sharded(strategy), world);
      Net net(outside), alone(outside);
      torch::optim::SGD sgd(net->parameters(), 0.01), own(alone->parameters(), 0.01);
      auto model = accelerator.prepare(net);
      for (int i = 0; i < 3; ++i) {
        step(model, sgd);
        own.zero_grad();
        alone->forward(inputs()).sum().backward();
        own.step();
      }
      model.summon_full_params([&] {
        for (const auto& item : alone->named_parameters())
          EXPECT_TRUE(net->named_parameters()[item.key()].allclose(item.value(), 1e-5, 1e-5)) << item.key();
        EXPECT_TRUE(net->first->kept.allclose(alone->first->weight.t(), 1e-5, 1e-5));
      });
    }
  });
}

/// Follows the advice in the error message.
struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    first = register_module("first", FsdpUnit<Keeper>());
    tied = register_parameter("tied", first->weight);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = first->forward(x);
    return y.matmul(tied) + first->kept.sum();
  }
  FsdpUnit<Keeper> first{nullptr};
  at::Tensor tied;
};
TORCH_MODULE(Tied);

TEST(KeptParameters, AreCorrectIfTwoModulesRegisterThem) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded(), world);
    Tied net, alone;
    torch::optim::SGD sgd(net->parameters(), 0.01), own(alone->parameters(), 0.01);
    auto model = accelerator.prepare(net);
    for (int i = 0; i < 3; ++i) {
      const at::Tensor y = model->forward(inputs()), z = alone->forward(inputs());
      EXPECT_TRUE(y.allclose(z, 1e-5, 1e-5));
      y.sum().backward();
      z.sum().backward();
      sgd.step();
      own.step();
      sgd.zero_grad();
      own.zero_grad();
      const torch::NoGradGuard no_grad;
      EXPECT_TRUE(model->forward(inputs()).allclose(alone->forward(inputs()), 1e-5, 1e-5));
    }
  });
}

TEST(KeptParameters, NameAParameterThatALossReads) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded(), world);
    Net net;
    auto model = accelerator.prepare(net);
    for (int i = 0; i < 2; ++i) {
      const at::Tensor loss = model->forward(inputs()).sum();
      EXPECT_THAT(failure_of<std::exception>([&] { net->last->weight.square().sum(); }),
                  StartsWith(misuse_of("last.weight", "last")));
      EXPECT_THAT(failure_of<std::exception>([&] { net->first->kept.sum(); }),
                  StartsWith(misuse_of("first.weight", "first")));
      EXPECT_THAT(failure_of<std::exception>([&] {
                    const torch::NoGradGuard no_grad;
                    net->last->weight.set_(torch::ones({4, 4}));  // as torch::load does
                  }),
                  StartsWith(misuse_of("last.weight", "last")));
      (loss + net->scale.square().sum()).backward();
      EXPECT_THAT(failure_of<std::exception>([&] { net->first->kept.sum(); }),
                  StartsWith(misuse_of("first.weight", "first")));
    }
  });
}

/// An output that forward does not return has no hook that gathers parameters for its backward.
TEST(KeptParameters, NameTheParameterOfAnOutputThatAUnitKeeps) {
  struct SecretiveImpl : torch::nn::Module {
    SecretiveImpl() { weight = register_parameter("weight", values({4, 4}, 1)); }
    at::Tensor forward(const at::Tensor& x) {
      secret = x.matmul(weight);
      return x * 2;
    }
    at::Tensor weight, secret;
  };
  struct HolderImpl : torch::nn::Module {
    HolderImpl() {
      scale = register_parameter("scale", values({4}, 4));
      unit = register_module("unit", FsdpUnit<SecretiveImpl>());
    }
    at::Tensor forward(const at::Tensor& x) {
      unit->forward(x * scale);
      return unit->secret;
    }
    at::Tensor scale;
    FsdpUnit<SecretiveImpl> unit{nullptr};
  };
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded(), world);
    auto model = accelerator.prepare(std::make_shared<HolderImpl>());
    EXPECT_THAT(failure_of<std::exception>([&] { accelerator.backward(model->forward(inputs()).sum()); }),
                misuse_of("unit.weight", "unit"));
  });
}

TEST(KeptParameters, NameAPieceThatWasKeptFromBetweenSteps) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded(), world);
    Net net;
    auto model = accelerator.prepare(net);
    // Each rank has a piece of a different parameter.
    const char* const name = world->rank() == 0 ? "weight" : "bias";
    const at::Tensor parameter = net->first->named_parameters()[name];
    const at::Tensor piece = parameter.detach();
    ASSERT_GT(piece.numel(), 0);
    net->outside = [&](NetImpl&) { return piece.sum(); };
    EXPECT_EQ(failure_of([&] { model->forward(inputs()); }),
              "this rank's piece of the parameter 'first." + std::string(name) +
                  "', which the program took between two steps and kept, is used in a forward or a backward: "
                  "use the "
                  "parameter itself");
    net->outside = {};
    model->forward(inputs()).sum().backward();
    EXPECT_TRUE(piece.equal(parameter)) << "code that averages weights between steps may keep it";
  });
}

TEST(KeptParameters, AreRefusedIfTheyShareMemory) {
  struct TwoImpl : torch::nn::Module {
    TwoImpl() {
      first = register_module("first", FsdpUnit<torch::nn::Linear>(4, 4));
      last = register_module("last", FsdpUnit<torch::nn::Linear>(4, 4));
      last->weight.set_data(first->weight);
    }
    at::Tensor forward(const at::Tensor& x) { return last->forward(first->forward(x)); }
    FsdpUnit<torch::nn::Linear> first{nullptr}, last{nullptr};
  };
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Accelerator accelerator(sharded(), world);
    EXPECT_EQ(failure_of([&] { accelerator.prepare(std::make_shared<TwoImpl>()); }),
              "the parameters 'first.weight' and 'last.weight' of a sharded model are two tensors in the "
              "same memory, and each "
              "would get its own: register one tensor in both modules");
  });
}

}  // namespace
}  // namespace hookline
