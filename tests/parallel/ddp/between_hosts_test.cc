// comm_scope = "between_hosts": exact inside each host, and the hook between hosts.
#include "parallel/ddp/between_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "hooks/registry/registry.h"
#include "parallel/ddp/ddp.h"
#include "parallel/distributed_module.h"
#include "parallel/world/same_bits.h"
#include "tests/support/failure.h"
#include "tests/support/logged_messages.h"
#include "tests/support/process.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::failure_of;
using ::testing::HasSubstr;
using testing::Messages;
using testing::run_ranks;
using testing::run_ranks_on_hosts;

using HostsOfRanks = std::vector<int>;

constexpr std::int64_t kInputs = 48, kOutputs = 40;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(kInputs, 64));
    last = register_module("last", torch::nn::Linear(64, kOutputs));
    // Its own generator, since rank threads share torch's.
    const torch::NoGradGuard no_grad;
    auto generator = at::detail::createCPUGenerator(7);
    for (at::Tensor& parameter : parameters()) parameter.normal_(0, 0.1, generator);
  }
  at::Tensor forward(const at::Tensor& x) { return last(torch::relu(first(x))); }
  torch::nn::Linear first{nullptr}, last{nullptr};
};

DdpOptions between_hosts() {
  DdpOptions options;
  options.hook_between_hosts = true;
  options.bucket_limits = BucketLimits::from(1);
  return options;
}

std::unique_ptr<CommHook> build(const std::string& hook, const Ddp& ddp) {
  OptionMap options;
  if (hook == "power_sgd")
    options = {{"matrix_approximation_rank", std::int64_t{2}}, {"start_powerSGD_iter", std::int64_t{2}}};
  return Registry::instance().build(hook, "no", options, ddp.hook_context());
}

at::Tensor inputs_of(int number, int step) {
  return torch::randn({8, kInputs},
                      at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 * number + step) + 1));
}

/// The gradients of `steps` steps, all parameters in one tensor. `numbers`: of the inputs that form this
/// rank's batch.
std::vector<at::Tensor> gradients_of(World& world, DistributedModule<NetImpl>& model, NetImpl& net,
                                     const std::vector<int>& numbers, int steps) {
  std::vector<at::Tensor> all;
  for (int step = 0; step < steps; ++step) {
    net.zero_grad();
    at::Tensor loss = torch::zeros({});
    std::vector<at::Tensor> inputs;
    for (const int number : numbers) inputs.push_back(inputs_of(number, step));
    model.forward(torch::cat(inputs)).square().mean().backward();
    std::vector<at::Tensor> flat;
    for (const at::Tensor& parameter : net.parameters()) flat.push_back(parameter.grad().flatten().clone());
    all.push_back(torch::cat(flat));
    EXPECT_TRUE(same_bits_on_all_ranks(world, all.back())) << "step " << step;
  }
  return all;
}

// Two ranks per host must give the same result as one rank per host that has both ranks' inputs.
TEST(BetweenHosts, CompressesTheAverageOfEachHost) {
  constexpr int kSteps = 6;
  for (const std::string hook : {"allreduce", "bf16", "power_sgd"}) {
    std::vector<at::Tensor> expected, found;
    run_ranks_on_hosts({0, 1}, [&](const std::shared_ptr<World>& world) {
      const auto net = std::make_shared<NetImpl>();
      DistributedModule<NetImpl> model(world, net, {});
      model.ddp().register_comm_hook(build(hook, model.ddp()));
      const int first = 2 * world->rank();
      const auto gradients = gradients_of(*world, model, *net, {first, first + 1}, kSteps);
      if (world->rank() == 0) expected = gradients;
    });
    run_ranks_on_hosts({0, 0, 1, 1}, [&](const std::shared_ptr<World>& world) {
      const auto net = std::make_shared<NetImpl>();
      DistributedModule<NetImpl> model(world, net, between_hosts());
      model.ddp().register_comm_hook(build(hook, model.ddp()));
      EXPECT_THAT(model.ddp().hook()->describe(), HasSubstr(" between hosts"));
      const auto gradients = gradients_of(*world, model, *net, {world->rank()}, kSteps);
      if (world->rank() == 0) found = gradients;
    });
    for (int step = 0; step < kSteps; ++step) {
      const auto index = static_cast<std::size_t>(step);
      EXPECT_LT((found[index] - expected[index]).norm().item<float>(),
                (hook == "bf16" ? 1e-2f : 1e-4f) * expected[index].norm().item<float>())
          << hook << ", step " << step;
    }
  }
}

TEST(BetweenHosts, WeighsHostsByTheirRanks) {
  run_ranks_on_hosts({0, 1, 1}, [&](const std::shared_ptr<World>& world) {
    const auto net = std::make_shared<NetImpl>();
    DistributedModule<NetImpl> model(world, net, between_hosts());
    model.ddp().register_comm_hook(build("allreduce", model.ddp()));
    const at::Tensor found = gradients_of(*world, model, *net, {world->rank()}, 1)[0];
    const auto alone = std::make_shared<NetImpl>();
    alone->forward(torch::cat({inputs_of(0, 0), inputs_of(1, 0), inputs_of(2, 0)}))
        .square()
        .mean()
        .backward();
    std::vector<at::Tensor> flat;
    for (const at::Tensor& parameter : alone->parameters()) flat.push_back(parameter.grad().flatten());
    EXPECT_TRUE(torch::allclose(found, torch::cat(flat), 1e-4, 1e-6));
  });
}

// PowerSGD's held-back gradients are not lost when its hook is replaced: the sum of all sent gradients equals
// the sum of all gradients.
TEST(BetweenHosts, HandsItsErrorToTheNextHook) {
  constexpr int kSteps = 5;
  run_ranks_on_hosts({0, 0, 1}, [](const std::shared_ptr<World>& world) {
    const auto net = std::make_shared<NetImpl>(), plain_net = std::make_shared<NetImpl>();
    DistributedModule<NetImpl> model(world, net, between_hosts()), plain(world, plain_net, {});
    model.ddp().register_comm_hook(build("power_sgd", model.ddp()));
    at::Tensor sent, expected;
    for (const at::Tensor& each : gradients_of(*world, plain, *plain_net, {world->rank()}, kSteps + 1))
      expected = expected.defined() ? expected + each : each;
    for (const at::Tensor& each : gradients_of(*world, model, *net, {world->rank()}, kSteps))
      sent = sent.defined() ? sent + each : each;
    EXPECT_FALSE(sent.allclose(expected, 0.05, 1e-3));
    model.ddp().exchange_hook({});
    net->zero_grad();
    model.forward(inputs_of(world->rank(), kSteps)).square().mean().backward();
    std::vector<at::Tensor> last;
    for (const at::Tensor& parameter : net->parameters()) last.push_back(parameter.grad().flatten());
    EXPECT_LT((sent + torch::cat(last) - expected).norm().item<double>(),
              1e-4 * expected.norm().item<double>());
  });
}

TEST(BetweenHosts, ResetsHostStateIfRanksMovedBetweenHosts) {
  std::vector<HookState> states(4);
  const auto train = [&](const HostsOfRanks& host_of, bool resumes) {
    run_ranks_on_hosts(host_of, [&](const std::shared_ptr<World>& world) {
      const auto net = std::make_shared<NetImpl>();
      DistributedModule<NetImpl> model(world, net, between_hosts());
      model.ddp().register_comm_hook(build("power_sgd", model.ddp()));
      CommHook& hook = *model.ddp().hook();
      HookState& state = states[static_cast<std::size_t>(world->rank())];
      if (resumes) hook.load_state(state, model.ddp().buckets());
      gradients_of(*world, model, *net, {world->rank()}, 4);
      if (!resumes) state = hook.save_state(model.ddp().buckets());
    });
  };
  train({0, 0, 1, 1}, false);
  for (const HookState& state : states) EXPECT_FALSE(state.own.empty());
  const std::string warning =
      "the hook 'power_sgd(rank=2, start=2) between hosts' starts without what it kept on each host, such as "
      "PowerSGD's error feedback: the ranks were on other hosts when the checkpoint was saved";
  {
    Messages messages;
    train({0, 0, 1, 1}, true);
    EXPECT_THAT(messages.text(), ::testing::Not(HasSubstr(warning)));
  }
  Messages messages;
  train({0, 1, 0, 1}, true);
  EXPECT_THAT(messages.text(), HasSubstr(warning));
}

TEST(BetweenHosts, AveragesOverAllRanksWhenRecordingWithoutAHook) {
  const testing::TemporaryFolder folder;
  run_ranks_on_hosts({0, 0, 1, 1}, [&](const std::shared_ptr<World>& world) {
    DdpOptions recording = between_hosts();
    recording.record_gradients = folder.path();
    recording.record_gradients_steps = 1;
    const auto net = std::make_shared<NetImpl>(), plain_net = std::make_shared<NetImpl>();
    DistributedModule<NetImpl> model(world, net, recording), plain(world, plain_net, {});
    const auto found = gradients_of(*world, model, *net, {world->rank()}, 1);
    const auto expected = gradients_of(*world, plain, *plain_net, {world->rank()}, 1);
    EXPECT_TRUE(torch::allclose(found[0], expected[0], 1e-4, 1e-6));
  });
}

TEST(BetweenHosts, DoesNothingOnOneHost) {
  Messages messages;
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    const auto net = std::make_shared<NetImpl>();
    DistributedModule<NetImpl> model(world, net, between_hosts());
    model.ddp().register_comm_hook(build("bf16", model.ddp()));
    EXPECT_EQ(model.ddp().hook(), nullptr);
  });
  EXPECT_THAT(
      messages.text(),
      HasSubstr(
          "the hook 'bf16' is not used: [ddp] comm_scope = \"between_hosts\" leaves it only what goes from "
          "host to host, and this run has one host"));
}

TEST(BetweenHosts, RequiresSharedMemoryInsideEachHost) {
  testing::run_ranks_with(
      {{.shared_memory = SharedMemory::never, .host_label = "a"},
       {.shared_memory = SharedMemory::never, .host_label = "b"}},
      [](const std::shared_ptr<World>& world) {
        EXPECT_EQ(failure_of([&] {
                    DistributedModule<NetImpl>(world, std::make_shared<NetImpl>(), between_hosts());
                  }),
                  "[ddp] comm_scope = \"between_hosts\" needs the ranks of a host to share "
                  "memory, and this run communicates over Gloo: set [launch] device = "
                  "\"cpu\" and backend = \"auto\", or leave comm_scope out");
      });
}

}  // namespace
}  // namespace hookline
