// What every registered hook must satisfy, in every wrapper, on 1 to 4 ranks.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "config/visible_gpus.h"
#include "hooks/registry/register.h"
#include "parallel/distributed_module.h"
#include "parallel/world/placement.h"
#include "tests/hooks/chosen_gradients.h"
#include "tests/hooks/lagging_hook.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::run_ranks;

// A hook as a program may register it: averages in two stages, the second starting when the first has
// finished.
class TwoHalves : public CommHook {
 public:
  TwoHalves(HookContext context, const OptionMap&)
      : CommHook(std::move(context)), second_(comm().open_channel("second")) {}
  FuturePtr run(GradBucket bucket) override {
    const at::Tensor whole = bucket.buffer().div_(world_size());
    const std::int64_t middle = whole.numel() / 2;
    auto ticket = std::make_shared<Ticket>(second_);
    const FuturePtr sent = then_start(comm().all_reduce(whole.narrow(0, 0, middle)),
                                      [ticket, rest = whole.narrow(0, middle, whole.numel() - middle)](
                                          const at::Tensor&) { return ticket->all_reduce(rest); });
    return then(sent, [whole](const at::Tensor&) { return whole; });
  }
  std::string describe() const override { return "two_halves"; }

 private:
  std::shared_ptr<OrderedChannel> second_;
};
HOOKLINE_REGISTER_HOOK(
    TwoHalves, R"json({"name": "two_halves", "summary": "Averages in two stages.", "options": []})json");

// Large enough that its middle layer is compressed at rank 2; with an odd width, a bias and a scalar
// parameter.
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

void PrintTo(const Case& c, std::ostream* out) { *out << c.hook << " in " << c.wrapper; }

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return c.hook + "_in_" + c.wrapper + "_" + std::to_string(c.ranks) + "_ranks_" +
         (c.many_buckets ? "many_buckets_" : "one_bucket_") + c10::toString(c.dtype);
}

#ifdef ON_GPU
// All ranks share the first GPU, over Gloo. Rank threads take turns there, so fewer cases cover the same.
const std::vector<int> kRanks = {1, 3};
Placement placement() {
  LaunchConfig config;
  config.device = "cuda";
  config.backend = "gloo";
  return place_rank(config, 0, 1);
}
bool is_missing() { return visible_gpus() == 0; }
#else
const std::vector<int> kRanks = {1, 2, 3, 4};
Placement placement() { return {}; }
bool is_missing() { return false; }
#endif

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const Catalog& catalog = Registry::instance().catalog();
  for (const HookRow& hook : catalog.hooks()) {
    for (const WrapperRow& wrapper : catalog.wrappers()) {
      const bool wrapped = !wrapper.dtype.empty();
      if (wrapped && (!hook.wrappable || hook.half_precision)) continue;
      for (const int ranks : kRanks) {
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
  if (hook.find("power_sgd") == std::string::npos) return {};
  return {{"matrix_approximation_rank", std::int64_t{2}}, {"start_powerSGD_iter", std::int64_t{2}}};
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

double length(const at::Tensor& tensor) { return tensor.norm().item<double>(); }

// What a hook declares about itself.
struct Declared {
  bool averages;
  double tolerance = 0;
  std::int64_t first_compressed_step = 0;  // 0: it compresses in no step of this test

  bool compresses(int step) const { return first_compressed_step > 0 && step >= first_compressed_step; }
};

constexpr std::int64_t kWholeModel = 1 << 24, kOneOrTwoTensors = 8 * 1024;

template <class Module>
DistributedModule<Module> make_model(const std::shared_ptr<World>& world, std::shared_ptr<Module> module,
                                     const Case& c, Declared& declared) {
  DdpOptions ddp_options;
  const std::int64_t bucket_bytes = c.many_buckets ? kOneOrTwoTensors : kWholeModel;
  ddp_options.bucket_limits = {bucket_bytes, bucket_bytes};
  module->to(world->device());
  DistributedModule<Module> model(world, std::move(module), ddp_options);
  const Registry& registry = Registry::instance();
  declared.averages = registry.catalog().find_hook(c.hook)->averages;
  declared.tolerance = tolerance_of_average(c.dtype);
  if (auto hook = registry.build(c.hook, c.wrapper, options_of(c.hook), model.ddp().hook_context())) {
    declared.tolerance = hook->tolerance(c.dtype);
    declared.first_compressed_step = hook->first_full_step();
    model.register_comm_hook(
        std::make_unique<testing::LaggingHook>(std::move(hook), static_cast<unsigned>(world->rank())));
  }
  return model;
}

class Conformance : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (is_missing()) GTEST_SKIP() << "no GPU here";
  }
};

TEST_P(Conformance, KeepsRanksEqualAndStaysAsNearToTheMeanAsItSays) {
  const Case& c = GetParam();
  run_ranks(
      c.ranks,
      [&](const std::shared_ptr<World>& world) {
        auto net = std::make_shared<NetImpl>(c.dtype);
        Declared declared{};
        auto model = make_model(world, net, c, declared);
        auto reference = std::make_shared<NetImpl>(c.dtype);
        reference->to(world->device());
        auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(world->rank()));
        at::Tensor left_out;  // lost to compression so far; hooks add it to the next gradients
        std::int64_t sent_before = 0;
        for (int step = 0; step < 6; ++step) {
          SCOPED_TRACE("step " + std::to_string(step));
          // Step 4 gives all ranks the same inputs; step 5 has zero gradients.
          if (step == 4) generator = at::detail::createCPUGenerator(99);
          const at::Tensor input = torch::randn({8, 17}, generator).to(c.dtype).to(world->device());
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
          const at::Tensor local = gradients_of(*reference);
          const at::Tensor mean = testing::mean_of_ranks(*world, local);

          model.zero_grad();
          sent_before = model.ddp().communication_stats().bytes_sent;
          loss_of(model.forward(input)).backward();
          const at::Tensor gradients = gradients_of(*net);
          ASSERT_TRUE(gradients.isfinite().all().item<bool>());
          if (!declared.averages) {
            EXPECT_TRUE(torch::equal(gradients, local));
          } else if (!declared.compresses(step)) {
            EXPECT_LE(length(gradients - mean), declared.tolerance * length(mean));
          } else {
            // A projection keeps part of its input and adds nothing.
            const at::Tensor wanted = left_out.defined() ? left_out + mean : mean;
            left_out = wanted - gradients;
            EXPECT_LE(length(left_out), (1 + declared.tolerance) * length(wanted));
            EXPECT_GT(length(gradients), 0.1 * length(wanted));
          }
          EXPECT_TRUE(!declared.averages || testing::same_on_all_ranks(*world, gradients));
          torch::NoGradGuard no_grad;
          for (at::Tensor& parameter : net->parameters()) parameter.sub_(0.05 * parameter.grad());
          EXPECT_TRUE(!declared.averages || testing::same_on_all_ranks(*world, flat(net->parameters())));
        }
        const CommunicationStats report = model.ddp().communication_stats();
        EXPECT_EQ(report.steps, 6);
        // Exact if gradients become ready in reverse registration order; `scale` does not.
        EXPECT_NEAR(static_cast<double>(report.bytes_sent - sent_before),
                    static_cast<double>(report.bytes_per_step),
                    0.01 * static_cast<double>(report.bytes_per_step));
        EXPECT_EQ(report.bytes_per_step == 0, !declared.averages);
        EXPECT_TRUE(!declared.compresses(5) || report.bytes_per_step < report.gradient_bytes / 2);
      },
      placement());
}

// Gradients that every compression must preserve exactly, after steps with zero gradients.
TEST_P(Conformance, GivesZeroForZeroAndTheMeanOfWhatItsCompressionKeeps) {
  const Case& c = GetParam();
  run_ranks(
      c.ranks,
      [&](const std::shared_ptr<World>& world) {
        const std::vector<std::vector<std::int64_t>> shapes{{131, 57}, {131},      {33, 65}, {},
                                                            {65, 3},   {5, 4, 31}, {1}};
        Declared declared{};
        auto model =
            make_model(world, std::make_shared<testing::GivenGradients>(shapes, c.dtype), c, declared);
        for (int step = 0; step < 7; ++step) {
          SCOPED_TRACE("step " + std::to_string(step));
          const auto all = [&](double value) {
            testing::Tensors gradients;
            for (const auto& shape : shapes)
              gradients.push_back(torch::full(shape, value, c.dtype).to(world->device()));
            return gradients;
          };
          const double own = step < 4 ? 0 : step * (world->rank() + 1) / 4.0;
          const double mean = step < 4 ? 0 : step * (world->size() + 1) / 8.0;
          const at::Tensor applied = flat(testing::communicate(model, all(own)));
          if (!declared.averages) {
            EXPECT_TRUE(torch::equal(applied, flat(all(own))));
          } else {
            EXPECT_LE(length(applied - mean), declared.tolerance * length(torch::full_like(applied, mean)));
            EXPECT_TRUE(testing::same_on_all_ranks(*world, applied));
          }
        }
      },
      placement());
}

INSTANTIATE_TEST_SUITE_P(EveryHook, Conformance, ::testing::ValuesIn(all_cases()), name_of);

}  // namespace
}  // namespace hookline
