// What each backward pass communicates: it belongs to the forward passes that its outputs came from, and to
// no others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "parallel/ddp/ddp.h"
#include "parallel/distributed_module.h"
#include "parallel/fsdp/fsdp.h"
#include "tests/support/activation_checkpointing.h"
#include "tests/support/failure.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::failure_of;
using testing::run_ranks;

/// Gives every model the same values.
void give_values(torch::nn::Module& module) {
  torch::NoGradGuard no_grad;
  for (at::Tensor& parameter : module.parameters())
    parameter.copy_(torch::cos(torch::arange(parameter.numel())).view(parameter.sizes()));
}

struct HeadsImpl : torch::nn::Module {
  HeadsImpl() {
    trunk = register_module("trunk", torch::nn::Linear(4, 4));
    left = register_module("left", torch::nn::Linear(4, 2));
    right = register_module("right", torch::nn::Linear(4, 2));
    give_values(*this);
  }
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    const at::Tensor hidden = torch::tanh(trunk(x));
    return {left(hidden), right(hidden)};
  }
  torch::nn::Linear trunk{nullptr}, left{nullptr}, right{nullptr};
};
using Heads = DistributedModule<HeadsImpl>;

at::Tensor input(int rank, int part = 0) {
  return torch::sin(torch::arange(12) * (1.0 + rank) + part).view({3, 4});
}

at::Tensor both(std::pair<at::Tensor, at::Tensor> outputs) {
  return outputs.first.sum() + 2 * outputs.second.sum();
}
at::Tensor first(std::pair<at::Tensor, at::Tensor> outputs) { return outputs.first.sum(); }

/// The mean over two ranks of the gradients that `body` computes in a plain model, per parameter; undefined
/// where there is none.
template <class Impl = HeadsImpl>
std::vector<at::Tensor> mean_of_two(const std::type_identity_t<std::function<void(Impl&, int rank)>>& body) {
  std::vector<at::Tensor> mean;
  for (int rank = 0; rank < 2; ++rank) {
    Impl alone;
    body(alone, rank);
    for (std::size_t i = 0; i < alone.parameters().size(); ++i) {
      const at::Tensor gradient = alone.parameters()[i].grad();
      if (rank == 0) mean.emplace_back();
      if (gradient.defined()) mean[i] = mean[i].defined() ? mean[i] + gradient / 2 : gradient / 2;
    }
  }
  return mean;
}

template <class Model>
void expect_gradients(const Model& model, const std::vector<at::Tensor>& expected, const std::string& when) {
  const auto parameters = model.named_parameters();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const at::Tensor gradient = parameters[i].value().grad();
    ASSERT_EQ(gradient.defined(), expected[i].defined()) << parameters[i].key() << ", " << when;
    if (!gradient.defined()) continue;
    EXPECT_TRUE(torch::allclose(gradient, expected[i], 1e-5, 1e-6)) << parameters[i].key() << ", " << when;
  }
}

const DdpOptions kStatic{.static_graph = true};
const DdpOptions kSearching{.find_unused_parameters = true};

TEST(DdpBackward, IgnoresAForwardWhoseOutputNobodyUses) {
  for (const DdpOptions& options : {DdpOptions{}, kStatic, kSearching}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      Heads model(world, std::make_shared<HeadsImpl>(), options);
      const auto expected =
          mean_of_two([](HeadsImpl& net, int rank) { both(net.forward(input(rank))).backward(); });
      model.forward(input(0));  // before the first step
      for (int step = 0; step < 4; ++step) {
        model.zero_grad();
        const at::Tensor loss = both(model.forward(input(world->rank())));
        model.forward(input(1));  // between a forward and its backward
        loss.backward();
        expect_gradients(model, expected, step == 0 ? "first step" : "later step");
        model.forward(input(2));  // after it
      }
      EXPECT_EQ(model.ddp().communication_stats().steps, 4);
      EXPECT_GT(model.ddp().bytes_sent(), 0);
    });
  }
}

TEST(DdpBackward, LeavesTheGradientOfAnOutputThatNoRankUsesUndefined) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Heads model(world, std::make_shared<HeadsImpl>(), kSearching);
    const auto expected =
        mean_of_two([](HeadsImpl& net, int rank) { first(net.forward(input(rank))).backward(); });
    ASSERT_FALSE(expected[4].defined()) << "right.weight";
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      first(model.forward(input(world->rank()))).backward();
      expect_gradients(model, expected, "a loss of the first output alone");
    }
  });
}

TEST(DdpBackward, AveragesWithZeroWhereOnlyOneRankUsesAnOutput) {
  for (const DdpOptions& options : {kSearching, kStatic}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      Heads model(world, std::make_shared<HeadsImpl>(), options);
      const auto body = [](auto&& forward, int rank) {
        auto outputs = forward(input(rank));
        (rank == 0 ? outputs.first : outputs.second).sum().backward();
      };
      const auto expected = mean_of_two(
          [&](HeadsImpl& net, int rank) { body([&](const at::Tensor& x) { return net.forward(x); }, rank); });
      for (int step = 0; step < 4; ++step) {
        model.zero_grad();
        body([&](const at::Tensor& x) { return model.forward(x); }, world->rank());
        expect_gradients(model, expected, "one output a rank");
      }
    });
  }
}

TEST(DdpBackward, KeepsAnInterveningLocalForwardSeparate) {
  for (const bool run_local_backward : {false, true}) {
    for (const DdpOptions& options : {DdpOptions{}, kStatic, kSearching}) {
      run_ranks(2, [&](const std::shared_ptr<World>& world) {
        Heads model(world, std::make_shared<HeadsImpl>(), options);
        const auto expected = mean_of_two([&](HeadsImpl& net, int rank) {
          both(net.forward(input(rank))).backward();
          if (run_local_backward) both(net.forward(input(rank, 5))).backward();
        });
        for (int step = 0; step < 4; ++step) {
          model.zero_grad();
          const at::Tensor loss = both(model.forward(input(world->rank())));
          model.no_sync([&] {
            const at::Tensor local = both(model.forward(input(world->rank(), 5)));
            if (run_local_backward) local.backward();
          });
          loss.backward();
          expect_gradients(model, expected, run_local_backward ? "with a local backward" : "without one");
        }
        EXPECT_EQ(model.ddp().communication_stats().steps, 4);
      });
    }
  }
}

/// The loss applies `outside` to the outputs of the forward.
struct OutsideImpl : torch::nn::Module {
  OutsideImpl() {
    trunk = register_module("trunk", torch::nn::Linear(4, 3));
    outside = register_module("outside", torch::nn::Linear(3, 2));
    scale = register_parameter("scale", torch::full({1}, 0.3));
    give_values(*this);
  }
  at::Tensor forward(const at::Tensor& x) { return torch::tanh(trunk(x)); }
  at::Tensor loss(const at::Tensor& output) {
    return outside(output).square().sum() * torch::exp(-scale).sum() + scale.sum();
  }
  torch::nn::Linear trunk{nullptr}, outside{nullptr};
  at::Tensor scale;
};

TEST(DdpBackward, AveragesParametersThatTheLossUsesDirectly) {
  for (const DdpOptions& options : {DdpOptions{}, kStatic, kSearching}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      DistributedModule<OutsideImpl> model(world, std::make_shared<OutsideImpl>(), options);
      const auto expected = mean_of_two<OutsideImpl>(
          [](OutsideImpl& net, int rank) { net.loss(net.forward(input(rank))).backward(); });
      for (int step = 0; step < 5; ++step) {
        model.zero_grad();
        model.no_sync([&] {  // an evaluation without a backward of its own
          const at::Tensor unused = model.forward(input(world->rank(), 7));
        });
        model.module()->loss(model.forward(input(world->rank()))).backward();
        expect_gradients(model, expected, "step " + std::to_string(step));
      }
      EXPECT_EQ(model.ddp().communication_stats().steps, 5);

      model.zero_grad();
      OutsideImpl alone;
      alone.loss(alone.forward(input(world->rank()))).backward();
      model.no_sync([&] { model.module()->loss(model.forward(input(world->rank()))).backward(); });
      std::vector<at::Tensor> own;
      for (const at::Tensor& parameter : alone.parameters()) own.push_back(parameter.grad());
      expect_gradients(model, own, "of one rank alone");
      EXPECT_EQ(model.ddp().communication_stats().steps, 5);
    });
  }
}

TEST(DdpBackward, AveragesABackwardThroughAForwardAndALocalOne) {
  for (const DdpOptions& options : {DdpOptions{}, kSearching}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      Heads model(world, std::make_shared<HeadsImpl>(), options);
      const auto expected = mean_of_two([](HeadsImpl& net, int rank) {
        (net.forward(input(rank)).first.sum() + net.forward(input(rank, 5)).second.sum()).backward();
      });
      for (int step = 0; step < 3; ++step) {
        model.zero_grad();
        at::Tensor loss = model.forward(input(world->rank())).first.sum();
        model.no_sync([&] { loss = loss + model.forward(input(world->rank(), 5)).second.sum(); });
        loss.backward();
        expect_gradients(model, expected, "both heads, of two forwards");
      }
      EXPECT_EQ(model.ddp().communication_stats().steps, 3);
    });
  }
}

struct OverlappingImpl : torch::nn::Module {
  OverlappingImpl() {
    linear = register_module("linear", torch::nn::Linear(4, 4));
    give_values(*this);
  }
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    const at::Tensor all = linear(x);
    return {all, all.slice(1, 0, 2)};
  }
  torch::nn::Linear linear{nullptr};
};

TEST(DdpBackward, GivesRightGradientsForOutputsThatShareMemory) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    DistributedModule<OverlappingImpl> model(world, std::make_shared<OverlappingImpl>(), DdpOptions{});
    const auto expected = mean_of_two<OverlappingImpl>([](OverlappingImpl& net, int rank) {
      const auto [all, part] = net.forward(input(rank));
      (all.square().sum() + (part.clone() * 2).square().sum()).backward();
    });
    auto [all, part] = model.forward(input(world->rank()));
    part.mul_(2);
    (all.square().sum() + part.square().sum()).backward();
    expect_gradients(model, expected, "as PyTorch's copies of outputs");
  });
}

TEST(DdpBackward, AveragesEachOfTwoBackwardsThatFollowTwoForwards) {
  for (const bool reversed : {false, true}) {
    for (const DdpOptions& options : {DdpOptions{}, kStatic, kSearching}) {
      run_ranks(2, [&](const std::shared_ptr<World>& world) {
        Heads model(world, std::make_shared<HeadsImpl>(), options);
        const auto expected = mean_of_two([](HeadsImpl& net, int rank) {
          both(net.forward(input(rank))).backward();
          both(net.forward(input(rank, 5))).backward();
        });
        for (int step = 0; step < 4; ++step) {
          model.zero_grad();
          at::Tensor one = both(model.forward(input(world->rank())));
          at::Tensor two = both(model.forward(input(world->rank(), 5)));
          if (reversed) std::swap(one, two);
          one.backward();
          two.backward();
          expect_gradients(model, expected, "two forwards, two backwards");
        }
      });
    }
  }
}

TEST(DdpBackward, AveragesOneBackwardThroughTwoForwards) {
  for (const DdpOptions& options : {DdpOptions{}, kStatic, kSearching}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      Heads model(world, std::make_shared<HeadsImpl>(), options);
      // The first forward uses one head and the second the other: neither alone reaches every parameter.
      const auto expected = mean_of_two([](HeadsImpl& net, int rank) {
        (net.forward(input(rank)).first.sum() + net.forward(input(rank, 5)).second.sum()).backward();
      });
      for (int step = 0; step < 4; ++step) {
        model.zero_grad();
        const at::Tensor one = model.forward(input(world->rank())).first.sum();
        const at::Tensor two = model.forward(input(world->rank(), 5)).second.sum();
        (one + two).backward();
        expect_gradients(model, expected, "one backward through two forwards");
      }
      EXPECT_EQ(model.ddp().communication_stats().steps, 4);
    });
  }
}

TEST(DdpBackward, AveragesASecondBackwardThroughARetainedGraph) {
  for (const DdpOptions& options : {DdpOptions{}, kStatic, kSearching}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      Heads model(world, std::make_shared<HeadsImpl>(), options);
      const auto expected = mean_of_two([](HeadsImpl& net, int rank) {
        const at::Tensor loss = both(net.forward(input(rank)));
        loss.backward({}, /*retain_graph=*/true);
        loss.backward();
      });
      for (int step = 0; step < 3; ++step) {
        model.zero_grad();
        const at::Tensor loss = both(model.forward(input(world->rank())));
        loss.backward({}, /*retain_graph=*/true);
        loss.backward();
        expect_gradients(model, expected, "the same graph twice");
      }
    });
  }
}

TEST(DdpBackward, SendsNothingForAutogradGrad) {
  for (const DdpOptions& options : {DdpOptions{}, kStatic, kSearching}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      Heads model(world, std::make_shared<HeadsImpl>(), options);
      const auto expected =
          mean_of_two([](HeadsImpl& net, int rank) { both(net.forward(input(rank))).backward(); });
      for (int step = 0; step < 4; ++step) {
        model.zero_grad();
        const at::Tensor x = input(world->rank()).requires_grad_();
        const at::Tensor loss = both(model.forward(x));
        const std::int64_t before = model.ddp().bytes_sent();
        const at::Tensor gradient = torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true)[0];
        EXPECT_GT(gradient.abs().sum().item<float>(), 0);
        EXPECT_EQ(model.ddp().bytes_sent(), before);
        loss.backward();
        expect_gradients(model, expected, "after torch::autograd::grad");
      }
    });
  }
}

TEST(DdpBackward, SupportsDoubleBackward) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Heads model(world, std::make_shared<HeadsImpl>(), {});
    const auto penalty = [](auto&& forward, int rank) {
      const at::Tensor x = input(rank).requires_grad_();
      const at::Tensor loss = both(forward(x));
      const at::Tensor gradient =
          torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
      return loss + gradient.pow(2).sum();
    };
    const auto expected = mean_of_two([&](HeadsImpl& net, int rank) {
      penalty([&](const at::Tensor& x) { return net.forward(x); }, rank).backward();
    });
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      penalty([&](const at::Tensor& x) { return model.forward(x); }, world->rank()).backward();
      expect_gradients(model, expected, "a penalty on the gradient");
    }
  });
}

TEST(DdpBackward, RelearnsAStaticGraphAfterABackwardThatThrew) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<HeadsImpl>();
    Heads model(world, net, kStatic);
    const auto expected =
        mean_of_two([](HeadsImpl& bare, int rank) { both(bare.forward(input(rank))).backward(); });
    {
      const auto handle = net->trunk->weight.register_hook(
          [](const at::Tensor&) -> at::Tensor { throw std::runtime_error("thrown by a hook of the test"); });
      EXPECT_THROW(both(model.forward(input(world->rank()))).backward(), std::exception);
      net->trunk->weight.remove_hook(handle);
    }
    for (int step = 0; step < 4; ++step) {
      model.zero_grad();
      both(model.forward(input(world->rank()))).backward();
      expect_gradients(model, expected, "after a backward that threw");
    }
  });
}

TEST(DdpBackward, LetsOutputsBeChangedInPlace) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Heads model(world, std::make_shared<HeadsImpl>(), kSearching);
    const auto loss_of = [](std::pair<at::Tensor, at::Tensor> outputs) {
      outputs.first.mul_(3);
      outputs.second.unsqueeze_(0);
      return both(outputs);
    };
    const auto expected =
        mean_of_two([&](HeadsImpl& net, int rank) { loss_of(net.forward(input(rank))).backward(); });
    for (int step = 0; step < 2; ++step) {
      model.zero_grad();
      loss_of(model.forward(input(world->rank()))).backward();
      expect_gradients(model, expected, "outputs changed in place");
    }
  });
}

TEST(DdpBackward, NamesParametersThatThePreviousBackwardMissed) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Heads model(world, std::make_shared<HeadsImpl>(), {});
    const at::Tensor one = first(model.forward(input(world->rank())));
    const at::Tensor two = both(model.forward(input(world->rank())));
    one.backward();
    EXPECT_THAT(failure_of([&] { two.backward(); }),
                ::testing::StartsWith("the previous backward did not reach the parameters 'right.weight', "
                                      "'right.bias' on rank " +
                                      std::to_string(world->rank()) + ", "));
  });
}

struct WordsImpl : torch::nn::Module {
  WordsImpl() {
    words = register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(10, 4).sparse(true)));
  }
  at::Tensor forward(const at::Tensor& numbers) { return words(numbers); }
  torch::nn::Embedding words{nullptr};
};

std::string refusal_of_sparse(const std::string& parameter) {
  return "the gradient of parameter '" + parameter +
         "' is sparse, and hookline averages dense gradients only: make the embedding with sparse(false)";
}

TEST(DdpBackward, RefusesAnEmbeddingWithSparseGradients) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    const std::string refused = refusal_of_sparse("words.weight");
    EXPECT_EQ(failure_of([&] { DistributedModule<WordsImpl>(world, std::make_shared<WordsImpl>(), {}); }),
              refused);
    EXPECT_EQ(failure_of([&] { Fsdp::make(world, std::make_shared<WordsImpl>(), {}); }), refused);
  });
}

TEST(DdpBackward, RefusesAGradientThatTurnsOutToBeSparse) {
  struct LookUpImpl : torch::nn::Module {
    LookUpImpl() { table = register_parameter("table", torch::ones({10, 4})); }
    at::Tensor forward(const at::Tensor& numbers) {
      return torch::embedding(table, numbers, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false,
                              /*sparse=*/true);
    }
    at::Tensor table;
  };
  const std::string refused = refusal_of_sparse("table");
  const auto backward = [](DistributedModule<LookUpImpl>& model) {
    model.forward(torch::arange(3)).sum().backward();
  };
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    DistributedModule<LookUpImpl> model(world, std::make_shared<LookUpImpl>(), {});
    EXPECT_EQ(failure_of([&] { backward(model); }), refused);
  });
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    const auto net = std::make_shared<LookUpImpl>();
    DistributedModule<LookUpImpl> model(net, Fsdp::make(world, net, {}));
    EXPECT_EQ(failure_of([&] { backward(model); }), refused);
  });
}

/// Two layers and, between them, 80 calls of tanh, each recomputed during backward in a nested pass.
struct DeepImpl : torch::nn::Module {
  DeepImpl() {
    first = register_module("first", torch::nn::Linear(4, 4));
    layer = register_module("layer", torch::nn::Linear(4, 4));
    give_values(*this);
  }
  at::Tensor forward(at::Tensor x) {
    x = first(x);
    for (int i = 0; i < depth; ++i)
      x = testing::checkpointed(x, [](const at::Tensor& hidden) { return torch::tanh(hidden); });
    return layer(x);
  }
  int depth = 80;
  torch::nn::Linear first{nullptr}, layer{nullptr};
};

TEST(DdpBackward, CountsAsOneWithAnyNumberOfNestedPasses) {
  for (const DdpOptions& options : {DdpOptions{}, kStatic}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      DistributedModule<DeepImpl> model(world, std::make_shared<DeepImpl>(), options);
      const auto mean = mean_of_two<DeepImpl>(
          [](DeepImpl& alone, int rank) { alone.forward(input(rank)).sum().backward(); });
      for (int step = 0; step < 3; ++step) {
        model.module()->zero_grad();
        model.forward(input(world->rank())).sum().backward();
        expect_gradients(*model.module(), mean, "step " + std::to_string(step));
      }
    });
  }
}

/// Entirely recomputed during backward: the pass through its output reaches no parameter directly.
struct RecomputedImpl : torch::nn::Module {
  RecomputedImpl() {
    layer = register_module("layer", torch::nn::Linear(4, 4));
    give_values(*this);
  }
  at::Tensor forward(const at::Tensor& x) {
    return testing::checkpointed(at::Tensor(x).detach().requires_grad_(),
                                 [this](const at::Tensor& hidden) { return layer(hidden); });
  }
  torch::nn::Linear layer{nullptr};
};

TEST(DdpBackward, AveragesParametersReachedOnlyByANestedPass) {
  for (const DdpOptions& options : {DdpOptions{}, kStatic}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      DistributedModule<RecomputedImpl> model(world, std::make_shared<RecomputedImpl>(), options);
      const auto mean = mean_of_two<RecomputedImpl>(
          [](RecomputedImpl& alone, int rank) { alone.forward(input(rank)).sum().backward(); });
      for (int step = 0; step < 3; ++step) {
        model.module()->zero_grad();
        model.forward(input(world->rank())).sum().backward();
        expect_gradients(*model.module(), mean, "step " + std::to_string(step));
      }
    });
  }
}

// As a generator's loss through a temporarily frozen discriminator.
TEST(DdpBackward, SendsNothingForAPassThroughAFrozenModel) {
  for (const DdpOptions& options : {DdpOptions{}, kStatic, kSearching}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      Heads model(world, std::make_shared<HeadsImpl>(), options);
      const auto mean =
          mean_of_two([](HeadsImpl& alone, int rank) { both(alone.forward(input(rank))).backward(); });
      for (int step = 0; step < 3; ++step) {
        model.module()->zero_grad();
        for (at::Tensor& parameter : model.module()->parameters()) parameter.set_requires_grad(false);
        at::Tensor generated = input(world->rank()).requires_grad_();
        both(model.forward(generated)).backward();
        EXPECT_TRUE(generated.grad().defined());
        for (at::Tensor& parameter : model.module()->parameters()) parameter.set_requires_grad(true);
        both(model.forward(input(world->rank()))).backward();
        expect_gradients(*model.module(), mean, "step " + std::to_string(step));
      }
    });
  }
}

/// A type that hookline cannot search for tensors.
struct Hidden {
  at::Tensor values;
};
struct HidingImpl : torch::nn::Module {
  HidingImpl() {
    layer = register_module("layer", torch::nn::Linear(4, 2));
    give_values(*this);
  }
  Hidden forward(const at::Tensor& x) { return {layer(x)}; }
  torch::nn::Linear layer{nullptr};
};

TEST(DdpBackward, RefusesABackwardItCannotMatchToAForward) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    DistributedModule<HidingImpl> model(world, std::make_shared<HidingImpl>(), {});
    const auto mean = mean_of_two<HidingImpl>(
        [](HidingImpl& alone, int rank) { alone.forward(input(rank)).values.sum().backward(); });
    model.forward(input(world->rank())).values.sum().backward();
    expect_gradients(*model.module(), mean, "one forward and one backward");
    model.module()->zero_grad();
    const Hidden first = model.forward(input(world->rank())), second = model.forward(input(world->rank(), 1));
    first.values.sum().backward();
    EXPECT_EQ(failure_of([&] { second.values.sum().backward(); }),
              "hookline can't tell which forward a backward belongs to: the gradients of the latest forward "
              "have been averaged already, and what forward returns is of a type that hookline can't look "
              "into. Return tensors, or define visit_tensors(Output&, visit) beside the type, which calls "
              "visit for each tensor in it");
  });
}

TEST(DdpBackward, KeepsALocalForwardWithOpaqueOutputsLocal) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    DistributedModule<HidingImpl> model(world, std::make_shared<HidingImpl>(), {});
    HidingImpl alone;
    alone.forward(input(world->rank())).values.sum().backward();
    model.forward(input(world->rank()));  // nobody uses it
    model.no_sync([&] { model.forward(input(world->rank())).values.sum().backward(); });
    EXPECT_TRUE(torch::equal(model.module()->layer->weight.grad(), alone.layer->weight.grad()));
  });
}

}  // namespace
}  // namespace hookline
