#include "parallel/ddp/ddp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "hooks/registry/registry.h"
#include "parallel/distributed_module.h"
#include "tests/support/failure.h"
#include "tests/support/run_ranks.h"

namespace hookline {

// Return types of some modules below: one that visit_tensors handles, and one that it does not.
struct Scores {
  at::Tensor logits;
  int classes = 0;
};
template <class Visit>
void visit_tensors(Scores& scores, Visit&& visit) {
  visit(scores.logits);
}
struct Opaque {
  at::Tensor logits;
};

namespace {

using testing::failure_of;
using ::testing::HasSubstr;
using testing::run_ranks;

struct TwoLayersImpl : torch::nn::Module {
  explicit TwoLayersImpl(int inputs = 4, int hidden = 8) {
    first = register_module("first", torch::nn::Linear(inputs, hidden));
    second = register_module("second", torch::nn::Linear(hidden, 2));
    seen = register_buffer("seen", torch::zeros({1}));
  }
  at::Tensor forward(const at::Tensor& x) { return second(torch::relu(first(x))); }
  torch::nn::Linear first{nullptr}, second{nullptr};
  at::Tensor seen;
};
using Model = DistributedModule<TwoLayersImpl>;

at::Tensor of_rank(const World& world) { return torch::full({3, 4}, 1.0 + world.rank()); }

TEST(Ddp, BroadcastsTheParametersAndBuffersOfRankZero) {
  run_ranks(3, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<TwoLayersImpl>();
    torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : net->parameters()) parameter.fill_(10 + world->rank());
    net->seen.fill_(20 + world->rank());
    Model model(world, net, {});
    for (const at::Tensor& parameter : net->parameters()) EXPECT_TRUE(parameter.eq(10).all().item<bool>());
    EXPECT_EQ(net->seen.item<float>(), 20);
  });
}

TEST(Ddp, AveragesTheGradientsOfAllRanks) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<TwoLayersImpl>();
    Model model(world, net, {});
    model.forward(of_rank(*world)).sum().backward();
    // Whatever the input, the gradient of the last layer's bias is each rank's number of rows.
    EXPECT_TRUE(net->second->bias.grad().eq(3).all().item<bool>());
    auto alone = std::make_shared<TwoLayersImpl>();
    torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < net->parameters().size(); ++i)
      alone->parameters()[i].copy_(net->parameters()[i]);
    at::Tensor mean;
    for (int rank = 0; rank < 2; ++rank) {
      at::AutoGradMode recording(true);
      alone->zero_grad();
      alone->forward(torch::full({3, 4}, 1.0 + rank)).sum().backward();
      const at::Tensor half = alone->first->weight.grad() / 2;
      mean = mean.defined() ? mean + half : half;
    }
    EXPECT_TRUE(torch::allclose(net->first->weight.grad(), mean, 1e-6, 1e-7));
  });
}

TEST(Ddp, BroadcastsBuffersBeforeEachForwardIfAsked) {
  for (const bool broadcast : {true, false}) {
    run_ranks(2, [broadcast](const std::shared_ptr<World>& world) {
      auto net = std::make_shared<TwoLayersImpl>();
      Model model(world, net, {.broadcast_buffers = broadcast});
      net->seen.fill_(world->rank());
      model.forward(of_rank(*world)).sum().backward();
      EXPECT_EQ(net->seen.item<float>(), broadcast ? 0 : world->rank());
    });
  }
}

TEST(Ddp, EveryRankNamesTheDifferingParameterAndRank) {
  run_ranks(3, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<TwoLayersImpl>(4, world->rank() == 2 ? 9 : 8);
    EXPECT_EQ(failure_of([&] { Model(world, net, {}); }),
              "the ranks differ: parameter 'first.weight' is Float [8, 4] on rank 0 and Float [9, 4] on rank "
              "2; every "
              "rank must hold the same");
  });
}

TEST(Ddp, NamesAParameterThatOnlyOneRankTrains) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<TwoLayersImpl>();
    if (world->rank() == 1) net->second->bias.set_requires_grad(false);
    EXPECT_EQ(failure_of([&] { Model(world, net, {}); }),
              "the ranks differ: parameter 'second.bias' is Float [2] on rank 0 and Float [2] without "
              "gradient on rank "
              "1; every rank must hold the same");
  });
}

TEST(Ddp, RefusesAModelWithoutParameters) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    EXPECT_EQ(failure_of([&] {
                DistributedModule<torch::nn::ReLUImpl>(world, std::make_shared<torch::nn::ReLUImpl>(), {});
              }),
              "the model 'torch::nn::ReLUImpl' has no parameter that requires a gradient: there is nothing "
              "to average "
              "between ranks; use it without preparing it");
  });
}

TEST(Ddp, RefusesASecondHook) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Model model(world, std::make_shared<TwoLayersImpl>(), {});
    const auto build = [&] {
      return Registry::instance().build("fp16", "no", {}, model.ddp().hook_context());
    };
    model.register_comm_hook(build());
    EXPECT_EQ(
        failure_of([&] { model.register_comm_hook(build()); }),
        "the model has a communication hook already, 'fp16': a second can't be registered; name one hook in "
        "[ddp] comm_hook, or register one by hand with comm_hook = \"no\"");
  });
}

TEST(Ddp, RunsAHookThatIsRegisteredByHandWithItsState) {
  struct State {
    std::shared_ptr<Comm> comm;
    std::shared_ptr<int> calls;
  };
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<TwoLayersImpl>();
    Model model(world, net, {});
    auto calls = std::make_shared<int>(0);
    model.register_comm_hook(State{model.ddp().hook_context().comm, calls},
                             [](State& state, GradBucket bucket) {
                               EXPECT_EQ(bucket.index(), 0u);
                               EXPECT_TRUE(bucket.is_last());
                               EXPECT_EQ(bucket.parameters().size(), 4u);
                               EXPECT_EQ(bucket.gradients().size(), 4u);
                               ++*state.calls;
                               at::Tensor doubled = bucket.buffer() * 2;
                               bucket.set_buffer(doubled);
                               return state.comm->all_reduce(bucket.buffer());
                             });
    model.forward(of_rank(*world)).sum().backward();
    EXPECT_EQ(*calls, 1);
    EXPECT_TRUE(net->second->bias.grad().eq(2 * 2 * 3).all().item<bool>());  // doubled, summed over 2 ranks
  });
}

TEST(Ddp, CountsTheBytesOfAHookWithItsOwnContext) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Model model(world, std::make_shared<TwoLayersImpl>(), {});
    auto own = std::make_shared<Comm>(world->rank(), world->size(),
                                      [world](const std::string& name) { return world->make_group(name); });
    model.register_comm_hook(Registry::instance().build("allreduce", "fp16", {}, {own}));
    model.forward(of_rank(*world)).sum().backward();
    const CommunicationStats report = model.ddp().communication_stats();
    EXPECT_EQ(report.bytes_sent, report.gradient_bytes / 2);
  });
}

/// Averages and multiplies by 0.75, and claims to send no bytes.
class Shrinking : public CommHook {
 public:
  using CommHook::CommHook;
  FuturePtr run(GradBucket bucket) override {
    return comm().all_reduce(bucket.buffer().mul_(0.75 / world_size()));
  }
  std::string describe() const override { return "shrinking"; }
  std::int64_t bytes_per_step(const std::vector<BucketShapes>&, at::ScalarType) const override { return 0; }
};

TEST(Ddp, SamplesTheErrorOfAHookInAFewSteps) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<TwoLayersImpl>(4, 200'000);  // more elements than the comparison samples
    Model model(world, net, {});
    model.register_comm_hook(std::make_unique<Shrinking>(model.ddp().hook_context()));
    std::vector<int> measured;
    for (int step = 0; step < 10; ++step) {
      model.zero_grad();
      model.forward(of_rank(*world)).sum().backward();
      EXPECT_TRUE(net->second->bias.grad().eq(0.75 * 3).all().item<bool>())
          << "what is measured stays as it is";
      const auto error = model.strategy().take_compression_error();
      EXPECT_FALSE(model.strategy().take_compression_error()) << "each once";
      if (!error) continue;
      measured.push_back(step);
      EXPECT_NEAR(*error, 0.25, 1e-5);
    }
    EXPECT_THAT(measured, ::testing::ElementsAre(1, 2, 4, 8));
    const CommunicationStats report = model.ddp().communication_stats();
    EXPECT_EQ(report.bytes_sent, 10 * report.gradient_bytes) << "without what the comparison takes";
  });
}

TEST(Ddp, ComparesNothingForAHookThatDoesNotCompress) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Model model(world, std::make_shared<TwoLayersImpl>(), {});
    model.register_comm_hook(Registry::instance().build("allreduce", "no", {}, model.ddp().hook_context()));
    for (int step = 0; step < 3; ++step) {
      model.forward(of_rank(*world)).sum().backward();
      EXPECT_FALSE(model.strategy().take_compression_error());
    }
  });
}

TEST(Ddp, SeparatesWaitingFromComputing) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    Model model(world, std::make_shared<TwoLayersImpl>(), {});
    StepClock& clock = *world->step_clock();
    clock.end_step();  // the second step is the one that is measured
    const auto late = std::chrono::milliseconds(1000);
    const auto begun = std::chrono::steady_clock::now();
    const at::Tensor loss = model.forward(of_rank(*world)).sum();
    if (world->rank() == 1) std::this_thread::sleep_for(late);
    {
      const TimedPhase timed(clock, &PhaseSeconds::backward);
      loss.backward();
      const auto since = model.strategy().only_waited_since(timed.start());
      ASSERT_TRUE(since);
      clock.add_exposed(*since, clock.now());
    }
    clock.end_step();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    const PhaseSeconds phases = clock.measured().value().phases;
    EXPECT_GT(phases.forward, 0);
    EXPECT_LT(phases.forward, took.count());
    EXPECT_GT(phases.backward, 0);
    if (world->rank() == 0) {
      EXPECT_GT(phases.exposed_communication, 0.1) << "it waited for the other";
    }
    EXPECT_LE(phases.forward + phases.backward + phases.exposed_communication, took.count());
    {
      const torch::NoGradGuard no_grad;
      model.forward(of_rank(*world));
    }
    clock.end_step();
    EXPECT_DOUBLE_EQ(2 * clock.measured()->phases.forward, phases.forward)
        << "an evaluation is not part of a step";
  });
}

TEST(Ddp, RefusesAHookWithoutAContext) {
  run_ranks(1, [](const std::shared_ptr<World>& world) {
    Model model(world, std::make_shared<TwoLayersImpl>(), {});
    EXPECT_EQ(failure_of([&] { model.register_comm_hook(Registry::instance().build("fp16", "no", {}, {})); }),
              "the communication hook 'fp16' was built without a context: build it with the model's "
              "ddp().hook_context()");
  });
}

TEST(Ddp, KeepsGradientsLocalInsideNoSync) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<TwoLayersImpl>();
    Model model(world, net, {});
    const double scale = 1 + world->rank();
    model.no_sync([&] { (model.forward(of_rank(*world)).sum() * scale).backward(); });
    EXPECT_TRUE(net->second->bias.grad().eq(3 * scale).all().item<bool>());
    (model.forward(of_rank(*world)).sum() * scale).backward();
    EXPECT_TRUE(net->second->bias.grad().eq(2 * 3 * 1.5).all().item<bool>());  // both passes, averaged
    EXPECT_EQ(model.ddp().communication_stats().steps, 1);
  });
}

struct BranchesImpl : torch::nn::Module {
  BranchesImpl() {
    left = register_module("left", torch::nn::Linear(4, 2));
    right = register_module("right", torch::nn::Linear(4, 2));
  }
  std::tuple<at::Tensor, int> forward(const at::Tensor& x, bool go_left) {
    return {go_left ? left(x) : right(x), 7};
  }
  torch::nn::Linear left{nullptr}, right{nullptr};
};

TEST(Ddp, FindsParametersThatAStepDoesNotUse) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<BranchesImpl>();
    DistributedModule<BranchesImpl> model(world, net, {.find_unused_parameters = true});
    for (int step = 0; step < 4; ++step) {
      model.zero_grad();
      const bool go_left = step % 2 == 0;
      std::get<0>(model.forward(of_rank(*world), go_left)).sum().backward();
      EXPECT_TRUE((go_left ? net->left : net->right)->bias.grad().eq(3).all().item<bool>());
      EXPECT_FALSE((go_left ? net->right : net->left)->bias.grad().defined());
    }
  });
}

TEST(Ddp, NamesParametersThatAStepMissed) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    DistributedModule<BranchesImpl> model(world, std::make_shared<BranchesImpl>(), {});
    std::get<0>(model.forward(of_rank(*world), true)).sum().backward();
    EXPECT_EQ(failure_of([&] { model.forward(of_rank(*world), true); }),
              "the previous backward did not reach the parameters 'right.weight', 'right.bias' on rank " +
                  std::to_string(world->rank()) +
                  ", and the averages wait for them: make all of them part of the loss, or set [ddp] "
                  "find_unused_parameters = true");
  });
}

TEST(Ddp, AveragesAParameterThatOnlyOneRankUses) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<BranchesImpl>();
    DistributedModule<BranchesImpl> model(world, net, {.find_unused_parameters = true});
    std::get<0>(model.forward(of_rank(*world), world->rank() == 0)).sum().backward();
    EXPECT_TRUE(net->left->bias.grad().eq(1.5).all().item<bool>());
    EXPECT_TRUE(net->right->bias.grad().eq(1.5).all().item<bool>());
  });
}

template <class Output>
struct ReturnsImpl : torch::nn::Module {
  ReturnsImpl() { layer = register_module("layer", torch::nn::Linear(4, 2)); }
  Output forward(const at::Tensor& x) { return Output{layer(x)}; }
  torch::nn::Linear layer{nullptr};
};

TEST(Ddp, FindsTensorsInAStructWithVisitTensors) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<ReturnsImpl<Scores>>();
    DistributedModule<ReturnsImpl<Scores>> model(world, net, {.find_unused_parameters = true});
    model.forward(of_rank(*world)).logits.sum().backward();
    EXPECT_TRUE(net->layer->bias.grad().eq(3).all().item<bool>());
  });
}

TEST(Ddp, ExplainsHowToExposeTensorsOfAnUnknownStruct) {
  run_ranks(1, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<ReturnsImpl<Opaque>>();
    DistributedModule<ReturnsImpl<Opaque>> plain(world, net, {});
    plain.forward(of_rank(*world)).logits.sum().backward();
    EXPECT_TRUE(net->layer->bias.grad().defined());
    DistributedModule<ReturnsImpl<Opaque>> searching(world, net, {.find_unused_parameters = true});
    static_assert(!KnownOutput<std::tuple<Opaque, int>> && !KnownOutput<std::vector<Opaque>>);
    static_assert(KnownOutput<std::map<std::string, std::vector<std::tuple<at::Tensor, int, Scores>>>>);
    EXPECT_THAT(failure_of([&] { searching.forward(of_rank(*world)); }),
                HasSubstr(": beside that type, define visit_tensors(Output&, visit), which calls visit for "
                          "each tensor in it"));
  });
}

// Stores its loss instead of returning it.
struct SilentImpl : torch::nn::Module {
  SilentImpl() { layer = register_module("layer", torch::nn::Linear(4, 2)); }
  void forward(const at::Tensor& x, double scale) { loss = layer(x).sum() * scale; }
  torch::nn::Linear layer{nullptr};
  at::Tensor loss;
};

TEST(Ddp, TrainsAModuleWhoseForwardReturnsNothing) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<SilentImpl>();
    DistributedModule<SilentImpl> model(world, net, {});
    model.forward(of_rank(*world), 1.0 + world->rank());
    net->loss.backward();
    EXPECT_TRUE(net->layer->bias.grad().eq(3 * 1.5).all().item<bool>());
    DistributedModule<SilentImpl> searching(world, std::make_shared<SilentImpl>(),
                                            {.find_unused_parameters = true});
    EXPECT_THAT(failure_of([&] { searching.forward(of_rank(*world), 1.0); }),
                HasSubstr("returns nothing, and find_unused_parameters and static_graph need its outputs: "
                          "return the tensors that the loss is made of"));
  });
}

TEST(Ddp, AveragesTheGradientsOfAStaticGraph) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<TwoLayersImpl>();
    Model model(world, net, {.static_graph = true});
    for (int step = 0; step < 4; ++step) {
      model.zero_grad();
      model.forward(of_rank(*world)).sum().backward();
      EXPECT_TRUE(net->second->bias.grad().eq(3).all().item<bool>()) << "step " << step;
      const at::Tensor mine = net->first->weight.grad().clone();
      std::vector<at::Tensor> sum{mine.clone()};
      world->group()->allreduce(sum)->wait();
      EXPECT_TRUE(torch::equal(sum[0], mine * 2)) << "step " << step;
    }
  });
}

TEST(Ddp, LetsTorchsOptimizerClearGradientsThatAreBucketViews) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<TwoLayersImpl>();
    Model model(world, net, {.gradient_as_bucket_view = true});
    torch::optim::SGD sgd(net->parameters(), 0.1);
    for (int step = 0; step < 4; ++step) {
      model.forward(of_rank(*world)).sum().backward();
      EXPECT_TRUE(net->second->bias.grad().eq(3).all().item<bool>()) << "step " << step;
      sgd.step();
      sgd.zero_grad(/*set_to_none=*/step % 2 == 0);
    }
  });
}

TEST(Ddp, LetsTorchsOptimizerClearBucketViewsBetweenForwardAndBackward) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<TwoLayersImpl>();
    Model model(world, net, {.gradient_as_bucket_view = true});
    torch::optim::SGD sgd(net->parameters(), 0.1);
    for (int step = 0; step < 4; ++step) {
      const at::Tensor loss = model.forward(of_rank(*world)).sum();
      sgd.zero_grad(/*set_to_none=*/step % 2 == 0);
      loss.backward();
      EXPECT_TRUE(net->second->bias.grad().eq(3).all().item<bool>()) << "step " << step;
      sgd.step();
    }
  });
}

TEST(Ddp, ReleasesBucketViewsOnRequestForUnknownOutputs) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<ReturnsImpl<Opaque>>();
    DistributedModule<ReturnsImpl<Opaque>> model(world, net, {.gradient_as_bucket_view = true});
    torch::optim::SGD sgd(net->parameters(), 0.1);
    for (int step = 0; step < 4; ++step) {
      model.forward(of_rank(*world)).logits.sum().backward();
      model.ddp().release_gradient_views();
      EXPECT_TRUE(net->layer->bias.grad().eq(3).all().item<bool>()) << "step " << step;
      sgd.zero_grad(/*set_to_none=*/step % 2 == 0);
    }
  });
}

struct TwoHeadsImpl : torch::nn::Module {
  TwoHeadsImpl() {
    left = register_module("left", torch::nn::Linear(4, 2));
    right = register_module("right", torch::nn::Linear(4, 2));
  }
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x) { return {left(x), right(x)}; }
  torch::nn::Linear left{nullptr}, right{nullptr};
};

TEST(Ddp, TrainsAStaticGraphWithAnOutputThatTheLossDoesNotUse) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<TwoHeadsImpl>();
    DistributedModule<TwoHeadsImpl> model(world, net, {.static_graph = true});
    for (int step = 0; step < 4; ++step) {
      model.zero_grad();
      at::Tensor used = model.forward(of_rank(*world)).first;
      used.mul_(2).sum().backward();
      EXPECT_TRUE(net->left->bias.grad().eq(6).all().item<bool>()) << "step " << step;
    }
  });
}

TEST(Ddp, AveragesAStaticGraphsGradientsThatWereAccumulated) {
  std::vector<at::Tensor> results;
  for (const bool static_graph : {false, true}) {
    run_ranks(2, [&](const std::shared_ptr<World>& world) {
      auto net = std::make_shared<TwoLayersImpl>();
      const torch::NoGradGuard no_grad;
      for (at::Tensor& parameter : net->parameters())
        parameter.copy_(torch::sin(torch::arange(parameter.numel())).view(parameter.sizes()));
      const at::AutoGradMode recording(true);
      Model model(world, net, {.static_graph = static_graph});
      at::Tensor sum;
      for (int step = 0; step < 5; ++step) {
        model.zero_grad();
        for (int part = 0; part < 2; ++part)
          model.no_sync([&] { model.forward(of_rank(*world) * (step + part)).sum().backward(); });
        model.forward(of_rank(*world) * step).sum().backward();
        sum = sum.defined() ? sum + net->first->weight.grad() : net->first->weight.grad().clone();
      }
      if (world->rank() == 1) results.push_back(sum);
    });
  }
  EXPECT_TRUE(results[0].equal(results[1])) << "each step's average, with a static graph as without";
}

TEST(Ddp, TrainsInManyRebuiltBucketsOfMixedDtypes) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<TwoLayersImpl>(64, 64);
    net->second->to(at::kDouble);
    struct Mixed : torch::nn::Module {
      explicit Mixed(std::shared_ptr<TwoLayersImpl> inner) : net(std::move(inner)) {
        register_module("net", net);
      }
      at::Tensor forward(const at::Tensor& x) { return net->second(net->first(x).to(at::kDouble)); }
      std::shared_ptr<TwoLayersImpl> net;
    };
    auto mixed = std::make_shared<Mixed>(net);
    DistributedModule<Mixed> model(world, mixed, {.bucket_limits = {256, 256}});
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      model.forward(torch::full({3, 64}, 1.0 + world->rank())).sum().backward();
      EXPECT_TRUE(net->second->bias.grad().eq(3).all().item<bool>());
    }
  });
}

TEST(Ddp, SavesAStateThatTheBareModuleLoads) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    auto net = std::make_shared<TwoLayersImpl>();
    Model model(world, net, {});
    std::stringstream file;
    torch::save(model.module(), file);
    auto bare = std::make_shared<TwoLayersImpl>();
    torch::load(bare, file);
    EXPECT_TRUE(torch::equal(bare->first->weight, net->first->weight));
  });
}

}  // namespace
}  // namespace hookline
