// Parameters that a program replaces after prepare(): the error names them, whichever strategy trains the
// model.
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

at::Tensor values(at::IntArrayRef sizes, double seed) {
  std::int64_t numel = 1;
  for (const std::int64_t size : sizes) numel *= size;
  return torch::sin(torch::arange(numel).to(torch::kFloat) * 0.9 + seed).view(sizes);
}

at::Tensor inputs() { return values({2, 4}, 3); }

/// A model whose parts can all be replaced; some are frozen.
struct ChangingImpl : torch::nn::Module {
  ChangingImpl() {
    block = register_module("block", FsdpUnit<torch::nn::Linear>(4, 4));
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    list = register_module("list", torch::nn::ModuleList(torch::nn::Linear(4, 4)));
    scale = register_parameter("scale", torch::ones({4}));
    offset = register_parameter("offset", torch::zeros({4}), /*requires_grad=*/false);
    const torch::NoGradGuard no_grad;
    std::int64_t seed = 0;
    for (auto& parameter : parameters())
      parameter.copy_(values(parameter.sizes(), static_cast<double>(++seed)));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = norm->forward(block->forward(x));
    return list->at<torch::nn::LinearImpl>(0).forward(y) * named_parameters(false)["scale"] + offset +
           more(x);
  }
  at::Tensor more(const at::Tensor& x) { return adapter ? adapter->forward(x) : torch::zeros_like(x); }
  void exchange(const std::string& name, const at::Tensor& tensor) { parameters_[name] = tensor; }
  void take_out(const std::string& name) { parameters_.erase(name); }
  FsdpUnit<torch::nn::Linear> block{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::ModuleList list{nullptr};
  torch::nn::Linear adapter{nullptr};
  at::Tensor scale, offset;
};
TORCH_MODULE(Changing);

enum class Kind { ddp, sharded, sharded_optimizer };

class ExchangedParameters : public ::testing::TestWithParam<Kind> {
 protected:
  static RunConfig config() {
    RunConfig config;
    if (GetParam() == Kind::sharded) config.fsdp.sharding_strategy = "full_shard";
    config.ddp.shard_optimizer = GetParam() == Kind::sharded_optimizer;
    return config;
  }

  using Change = std::function<void(Changing&)>;
  /// Expects this error from the first forward after `change` on each rank, both in training and in
  /// evaluation.
  static void expect_error(const Change& change, const ::testing::Matcher<const std::string&>& expected) {
    for (const bool with_gradients : {true, false}) {
      run_ranks(2, [&](const std::shared_ptr<World>& world) {
        Accelerator accelerator(config(), world);
        Changing net;
        torch::optim::SGD sgd(net->parameters(), 0.1);
        auto [model, optimizer] = accelerator.prepare(net, sgd);
        train(accelerator, model, optimizer, world->rank());
        change(net);
        const torch::AutoGradMode mode(with_gradients);
        for (int i = 0; i < 2; ++i) EXPECT_THAT(failure_of([&] { model->forward(inputs()); }), expected);
      });
    }
  }
  template <class Model, class Optimizer>
  static void train(Accelerator& accelerator, Model& model, Optimizer& optimizer, int rank) {
    for (int i = 0; i < 2; ++i) {
      accelerator.backward(model->forward(inputs() * (rank + 1)).square().sum());
      optimizer.step();
      optimizer.zero_grad();
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Strategies, ExchangedParameters,
                         ::testing::Values(Kind::ddp, Kind::sharded, Kind::sharded_optimizer),
                         [](const auto& each) {
                           return each.param == Kind::ddp       ? "ddp"
                                  : each.param == Kind::sharded ? "sharded"
                                                                : "sharded_optimizer";
                         });

constexpr const char* kAdvice =
    ": only gradients of the tensors that prepare() found are averaged. Register modules and parameters "
    "before prepare(), and change values in place, as with copy_() under torch::NoGradGuard";

TEST_P(ExchangedParameters, AreNamedIfAModuleWasReplaced) {
  expect_error(
      [](Changing& net) { net->norm = net->replace_module("norm", torch::nn::BatchNorm1d(4)); },
      std::string("the parameter 'norm.weight' was replaced by another tensor after the model was prepared") +
          kAdvice);
}

TEST_P(ExchangedParameters, AreNamedIfOneIsNew) {
  expect_error(
      [](Changing& net) { net->adapter = net->register_module("adapter", torch::nn::Linear(4, 4)); },
      std::string("the parameter 'adapter.weight' was registered after the model was prepared") + kAdvice);
  expect_error([](Changing& net) { net->list->push_back(torch::nn::Linear(4, 4)); },
               StartsWith("the parameter 'list.1.weight' was registered after "));
  expect_error([](Changing& net) { net->register_parameter("more", torch::ones({4})); },
               StartsWith("the parameter 'more' was registered after "));
}

TEST_P(ExchangedParameters, AreNamedIfOneIsAnotherTensor) {
  expect_error([](Changing& net) { net->exchange("scale", torch::ones({4}).requires_grad_()); },
               StartsWith("the parameter 'scale' was replaced by another tensor "));
}

TEST_P(ExchangedParameters, AreNamedIfOneWasRemoved) {
  expect_error(
      [](Changing& net) { net->take_out("offset"); },
      std::string("the parameter 'offset' was taken out of the model after it was prepared") + kAdvice);
}

/// libtorch does not notice this: the forward then uses another tensor than the registered one.
TEST_P(ExchangedParameters, AreNamedIfALayersMemberIsAssigned) {
  expect_error(
      [](Changing& net) {
        net->block->weight = torch::randn({4, 4}).requires_grad_();
      },
      std::string("'block.weight' was assigned another tensor after the model was prepared") + kAdvice);
  expect_error([](Changing& net) { net->norm->bias = torch::randn({4}).requires_grad_(); },
               StartsWith("'norm.bias' was assigned another tensor "));
}

TEST_P(ExchangedParameters, AreNamedIfOneRequiresAGradientOnlyNow) {
  expect_error(
      [](Changing& net) { net->offset.requires_grad_(); },
      "the parameter 'offset' requires a gradient now, and did not when the model was prepared: call "
      "requires_grad_(true) before prepare(), and requires_grad_(false) after it if it is to be frozen at "
      "first");
}

TEST_P(ExchangedParameters, AreNotReportedForAllowedChanges) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    RunConfig with_unused = config();
    with_unused.ddp.find_unused_parameters = GetParam() != Kind::sharded;
    Accelerator accelerator(with_unused, world);
    Changing net;
    net->adapter = net->register_module("adapter", torch::nn::Linear(4, 4));  // before prepare()
    torch::optim::SGD sgd(net->parameters(), 0.001);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    const auto train_on = [&, &model = model, &optimizer = optimizer] {
      train(accelerator, model, optimizer, world->rank());
    };
    train_on();
    net->block->weight.set_requires_grad(false);  // freeze, then unfreeze
    train_on();
    net->block->weight.set_requires_grad(true);
    train_on();
    net->eval();
    {
      const torch::NoGradGuard no_grad;
      model->forward(inputs());
    }
    net->train();
    train_on();
    net->norm->running_mean = torch::zeros({4});  // buffers are no parameters
    net->norm->named_buffers()["running_var"].fill_(1);
    train_on();
    net->register_parameter("also", net->scale);  // registered under a second name
    train_on();
    std::vector<at::Tensor> wholes;
    model.summon_full_params([&] {
      for (const at::Tensor& parameter : net->parameters()) wholes.push_back(parameter.detach().clone());
    });
    for (const at::Tensor& whole : wholes) {
      const std::vector<at::Tensor> all = world->all_gather(whole);
      EXPECT_TRUE(all[0].equal(all[1]) && all[0].isfinite().all().item<bool>()) << all;
    }
  });
}

/// Nothing reveals that a program's own member was assigned another tensor; the registered one just gets no
/// gradient.
TEST(ExchangedParameters, OfAModulesOwnMemberAreNamedByDdpsNextForward) {
  struct OwnImpl : torch::nn::Module {
    OwnImpl() {
      weight = register_parameter("weight", torch::ones({4}));
      bias = register_parameter("bias", torch::ones({4}));
    }
    at::Tensor forward(const at::Tensor& x) { return x * weight + bias; }
    at::Tensor weight, bias;
  };
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    for (const Kind kind : {Kind::ddp, Kind::sharded}) {
      RunConfig config;
      if (kind == Kind::sharded) config.fsdp.sharding_strategy = "full_shard";
      Accelerator accelerator(config, world);
      auto net = std::make_shared<OwnImpl>();
      auto model = accelerator.prepare(net);
      const at::Tensor registered = net->weight;
      accelerator.backward(model->forward(inputs()).sum());
      model->zero_grad();
      net->weight = torch::ones({4}).requires_grad_();
      accelerator.backward(model->forward(inputs()).sum());
      if (kind == Kind::ddp) {
        EXPECT_THAT(failure_of([&] { model->forward(inputs()); }),
                    StartsWith("the previous backward did not reach the parameter 'weight' on rank " +
                               std::to_string(world->rank()) + ", "));
      } else {
        EXPECT_TRUE(registered.grad().eq(0).all().item<bool>());
      }
    }
  });
}

}  // namespace
}  // namespace hookline
