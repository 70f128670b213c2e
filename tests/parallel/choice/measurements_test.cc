// Measurements before a hook is chosen: backward without communication, the link, and each hook's computation
// and traffic.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "hooks/registry/registry.h"
#include "parallel/choice/deferred_average.h"
#include "parallel/choice/hook_costs.h"
#include "parallel/choice/hook_timing.h"
#include "parallel/choice/link_cost.h"
#include "parallel/distributed_module.h"
#include "tests/parallel/choice/choosing_trainer.h"
#include "tests/support/failure.h"
#include "tests/support/random_rows.h"
#include "tests/support/run_ranks.h"

namespace hookline {
namespace {

using testing::failure_of;
using testing::random_rows;
using testing::run_ranks;
using ::testing::SizeIs;

struct ChainImpl : torch::nn::Module {
  ChainImpl() {
    for (int i = 0; i < 4; ++i)
      layers.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(64, 64)));
    const torch::NoGradGuard no_grad;
    int seed = 1000;
    for (at::Tensor& parameter : parameters())
      parameter.copy_(random_rows(1, parameter.numel(), seed++).mul(0.1).reshape(parameter.sizes()));
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& layer : layers) x = torch::tanh(layer(x));
    return x;
  }
  std::vector<torch::nn::Linear> layers;
};
using DistributedChain = DistributedModule<ChainImpl>;

at::Tensor gradients_after(const World& world, DistributedChain& model, int step) {
  for (at::Tensor& parameter : model->parameters()) parameter.mutable_grad() = at::Tensor();
  model.forward(random_rows(8, 64, 10 * step + world.rank())).square().sum().backward();
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : model->parameters()) all.push_back(parameter.grad().reshape({-1}));
  return at::cat(all);
}

DdpOptions small_buckets() {
  DdpOptions options;
  options.bucket_limits = {16'000, 16'000};  // a layer has 16,640 bytes
  return options;
}

TEST(DeferredAverage, MatchesNoHookBitForBitAndRecordsReadyTimes) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    DistributedChain plain(world, std::make_shared<ChainImpl>(), small_buckets());
    DistributedChain measured(world, std::make_shared<ChainImpl>(), small_buckets());
    const auto moments = std::make_shared<BucketMoments>();
    measured.register_comm_hook(std::make_unique<DeferredAverage>(measured.ddp().hook_context(), moments));
    for (int step = 0; step < 3; ++step) {
      const at::Tensor wanted = gradients_after(*world, plain, step);
      EXPECT_TRUE(gradients_after(*world, measured, step).equal(wanted)) << "step " << step;
      const std::lock_guard lock(moments->mutex);
      ASSERT_EQ(moments->ready.size(), measured.ddp().buckets().size());
      EXPECT_EQ(moments->ready.size() > 1, step > 0) << "buckets are rebuilt after the first step";
      EXPECT_TRUE(std::is_sorted(moments->ready.begin(), moments->ready.end()));
      EXPECT_GT(moments->ready.front(), measured.ddp().backward_began_at());
      EXPECT_GT(moments->averaged, moments->ready.back());
    }
  });
}

TEST(MeasureLink, GivesAllRanksTheSameTimesForEachSize) {
  std::vector<LinkCost> costs(3);
  run_ranks(3, [&](const std::shared_ptr<World>& world) {
    const auto group = world->make_stage_group("probe");
    costs[static_cast<std::size_t>(world->rank())] =
        measure_link(*world, *group, 100'000, /*budget_seconds=*/600, "the link is measured");
  });
  for (const LinkCost& cost : costs) {
    const std::vector<CollectiveTime>& full = cost.full.measured();
    ASSERT_THAT(full, SizeIs(3));  // 64 and 16384 before it
    EXPECT_EQ(full.back().bytes, 100'000);
    EXPECT_EQ(cost.half.measured().back().bytes, 100'000);
    for (std::size_t i = 0; i < full.size(); ++i) {
      EXPECT_GT(full[i].seconds, 0);
      EXPECT_EQ(full[i].seconds, costs[0].full.measured()[i].seconds);
      EXPECT_EQ(full[i].busy_seconds, costs[0].full.measured()[i].busy_seconds);
    }
  }
}

TEST(MeasureLink, StopsWhenItsBudgetIsSpent) {
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    const auto group = world->make_stage_group("probe");
    const LinkCost cost =
        measure_link(*world, *group, std::int64_t{1} << 40, /*budget_seconds=*/0.05, "the link is measured");
    EXPECT_LT(cost.full.measured().back().bytes, 1e9);
    EXPECT_LT(cost.half.measured().back().bytes, 1e9);
  });
}

/// Two buckets: one with a matrix of 64 × 48 and a vector of 10, one with a vector of 20.
BucketParameters two_buckets() {
  return {{torch::randn({64, 48}), torch::randn({10})}, {torch::randn({20})}};
}
constexpr double kPatient = 60;  // seconds
constexpr double kFirst = 64 * 48 + 10, kSecond = 20;

std::vector<BucketCost> cost_of(const std::string& name, const std::string& wrapper,
                                const OptionMap& options = {}) {
  return cost_of_hook(
             [&](const HookContext& context) {
               return Registry::instance().build(name, wrapper, options, context);
             },
             /*world_size=*/4, two_buckets(), kPatient)
      .buckets;
}

TEST(CostOfHook, FindsWhatEachBucketSends) {
  const std::vector<BucketCost> allreduce = cost_of("allreduce", "no"), half = cost_of("fp16", "no");
  ASSERT_THAT(allreduce, SizeIs(2));
  ASSERT_THAT(half, SizeIs(2));
  ASSERT_THAT(allreduce[0].sends, SizeIs(1));
  ASSERT_THAT(half[0].sends, SizeIs(1));
  EXPECT_EQ(allreduce[0].sends[0].bytes, 4 * kFirst);
  EXPECT_EQ(allreduce[1].sends[0].bytes, 4 * kSecond);
  EXPECT_FALSE(allreduce[0].sends[0].is_half);
  EXPECT_EQ(half[0].sends[0].bytes, 2 * kFirst);
  EXPECT_TRUE(half[0].sends[0].is_half);
  EXPECT_GT(half[0].sends[0].busy_before, 0) << "the cast";
  EXPECT_GT(half[0].sends[0].busy_after, 0) << "the cast back";
}

TEST(CostOfHook, FindsThatAHookSendsNothing) {
  const std::vector<BucketCost> costs = cost_of("noop", "no");
  ASSERT_THAT(costs, SizeIs(2));
  EXPECT_THAT(costs[0].sends, SizeIs(0));
}

// P and the vectors are sent first, then Q once P has arrived.
TEST(CostOfHook, FindsWhichSendWaitsForWhich) {
  const std::vector<BucketCost> costs =
      cost_of("power_sgd", "no", {{"matrix_approximation_rank", 2}, {"start_powerSGD_iter", 2}});
  ASSERT_THAT(costs, SizeIs(2));
  const std::vector<Send>& sends = costs[0].sends;
  double bytes = 0;
  for (const Send& each : sends) bytes += each.bytes;
  EXPECT_EQ(bytes, 4.0 * (2 * 64 + 2 * 48 + 10));
  EXPECT_LT(sends.front().after, 0);
  EXPECT_GE(sends.back().after, 0);
  EXPECT_EQ(sends.back().bytes, 4.0 * 2 * 48);
  EXPECT_GT(sends.back().busy_after, 0) << "gradients rebuilt";
}

// Hooks are measured after DDP has rebuilt its buckets, so PowerSGD need not wait for that.
TEST(CostOfHook, MeasuresCompressedStepsRightAway) {
  const auto steps_before = [](bool buckets_are_final) {
    const auto comm = std::make_shared<Comm>(0, 1, [](const std::string&) { return ProcessGroupPtr(); });
    return Registry::instance()
        .build("power_sgd", "no", {{"start_powerSGD_iter", 2}}, {comm, buckets_are_final})
        ->first_full_step();
  };
  EXPECT_EQ(steps_before(false), 2);
  EXPECT_EQ(steps_before(true), 0);
}

HookCost cost_of_two_buckets() {
  HookCost cost;
  Send p, q;
  p.busy_before = 1;
  p.bytes = 100;
  q.after = 0;
  q.busy_before = 2;
  q.bytes = 10;
  q.busy_after = 4;
  cost.buckets = {{{p, q}, 8}, {{p}, 16}};
  cost.margin = 0.5;
  return cost;
}

TEST(InOtherBuckets, JoinsAndCutsWhatWasTimed) {
  const BucketParameters timed = {{torch::ones({3}), torch::ones({1})}, {torch::ones({2})}};
  const HookCost joined =
      in_other_buckets(cost_of_two_buckets(), timed, {{timed[0][0], timed[0][1], timed[1][0]}});
  ASSERT_THAT(joined.buckets, SizeIs(1));
  ASSERT_THAT(joined.buckets[0].sends, SizeIs(2));
  EXPECT_DOUBLE_EQ(joined.buckets[0].sends[0].bytes, 200);
  EXPECT_DOUBLE_EQ(joined.buckets[0].sends[0].busy_before, 2);
  EXPECT_EQ(joined.buckets[0].sends[1].after, 0);
  EXPECT_DOUBLE_EQ(joined.buckets[0].sends[1].bytes, 10);
  EXPECT_DOUBLE_EQ(joined.buckets[0].busy_after, 24);
  EXPECT_EQ(joined.how, HookCost::Known::derived);
  EXPECT_EQ(joined.margin, 0.5);
  const HookCost cut =
      in_other_buckets(cost_of_two_buckets(), timed, {{timed[0][0]}, {timed[0][1], timed[1][0]}});
  ASSERT_THAT(cut.buckets, SizeIs(2));
  EXPECT_DOUBLE_EQ(cut.buckets[0].sends.at(0).bytes, 75);
  EXPECT_DOUBLE_EQ(cut.buckets[0].sends.at(1).busy_after, 3);
  EXPECT_DOUBLE_EQ(cut.buckets[1].sends.at(0).bytes, 125);
  EXPECT_DOUBLE_EQ(cut.buckets[1].busy_after, 18);
}

TEST(AfterAverageWithinHost, StartsSendsAfterThatAverage) {
  Send all;
  all.bytes = 1000;
  const CollectiveTimes inside({{500, 0.5, 0.5}, {1000, 1.5, 1.5}});
  const HookCost cost = after_average_within_host(cost_of_two_buckets(), {{{all}, 0}, {{all}, 0}}, inside);
  const std::vector<Send>& sends = cost.buckets.at(0).sends;
  ASSERT_THAT(sends, SizeIs(3));
  EXPECT_EQ(sends[0].bytes, 0);
  EXPECT_EQ(sends[0].after, -1);
  EXPECT_EQ(sends[0].busy_after, 8) << "what run() computes";
  EXPECT_EQ(sends[1].after, 0);
  EXPECT_DOUBLE_EQ(sends[1].busy_before, 1 + 1.5);
  EXPECT_EQ(sends[2].after, 1);
  EXPECT_EQ(sends[2].bytes, 10);
  EXPECT_EQ(cost.buckets[0].busy_after, 0);
}

TEST(CostOfHook, LeavesTheGradientsAsTheyAre) {
  BucketParameters buckets = two_buckets();
  buckets[0][0].mutable_grad() = torch::randn({64, 48});
  const at::Tensor before = buckets[0][0].grad().clone(), parameter = buckets[0][0].clone();
  cost_of_hook(
      [](const HookContext& context) { return Registry::instance().build("bf16", "no", {}, context); }, 2,
      buckets, kPatient);
  EXPECT_TRUE(buckets[0][0].grad().equal(before));
  EXPECT_TRUE(buckets[0][0].equal(parameter));
}

class Broken : public CommHook {
 public:
  using CommHook::CommHook;
  FuturePtr run(GradBucket) override { throw Error("this hook is broken"); }
  std::string describe() const override { return "broken"; }
};

TEST(CostOfHook, RefusesAHookThatStartsCompressingLate) {
  EXPECT_EQ(failure_of<Error>([] { cost_of("power_sgd", "no"); }),
            "the hook 'power_sgd(rank=1, start=998)' compresses from step 998 on, and to be measured it must "
            "begin by step 10");
}

TEST(CostOfHook, ThrowsWhatTheHookThrows) {
  EXPECT_EQ(failure_of<Error>([] {
              cost_of_hook([](const HookContext& context) { return std::make_unique<Broken>(context); }, 2,
                           two_buckets(), kPatient);
            }),
            "this hook is broken");
}

/// A hook that cannot run without other ranks, and estimates its own cost.
class Derived : public CommHook {
 public:
  Derived(HookContext context, HookCost cost) : CommHook(std::move(context)), cost_(std::move(cost)) {}
  FuturePtr run(GradBucket) override { throw Error("it was run"); }
  std::string describe() const override { return "derived"; }
  std::optional<HookCost> estimate_cost(const BucketParameters&) const override { return cost_; }

 private:
  HookCost cost_;
};

HookCost cost_of_derived(const HookCost& cost) {
  return cost_of_hook([&](const HookContext& context) { return std::make_unique<Derived>(context, cost); }, 2,
                      two_buckets(), kPatient);
}

TEST(CostOfHook, UsesTheHooksOwnEstimate) {
  HookCost cost;
  cost.buckets.resize(2);
  cost.buckets[1].busy_after = 0.25;
  cost.margin = 0.5;
  cost.how = HookCost::Known::derived;
  const HookCost found = cost_of_derived(cost);
  EXPECT_EQ(found.how, HookCost::Known::derived);
  EXPECT_EQ(found.margin, 0.5);
  EXPECT_EQ(found.buckets.at(1).busy_after, 0.25);
}

thread_local int rank_here = 0;  // rank of the thread that times hooks

/// Computes for 10 ms on rank 0, and for 20 ms on rank 1.
class Sleepy : public CommHook {
 public:
  using CommHook::CommHook;
  FuturePtr run(GradBucket bucket) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(10 * (1 + rank_here)));
    return completed(bucket.buffer());
  }
  std::string describe() const override { return "sleepy"; }
};

void register_hooks_of_ranks() {
  static const bool once = [] {
    Registry::instance().add(testing::row_of("sleepy"), [](HookContext context, const OptionMap&) {
      return std::make_unique<Sleepy>(std::move(context));
    });
    Registry::instance().add(testing::row_of("broken_on_rank_1"),
                             [](HookContext context, const OptionMap&) -> std::unique_ptr<CommHook> {
                               if (rank_here == 1) return std::make_unique<Broken>(std::move(context));
                               return std::make_unique<Sleepy>(std::move(context));
                             });
    return true;
  }();
  EXPECT_TRUE(once);
}

double busy_of(const HookCost& cost) {
  double busy = 0;
  for (const BucketCost& bucket : cost.buckets) busy += bucket.busy_after;
  return busy;
}

TEST(CostsOf, ComeFromTheSlowestRankAndOmitHooksThatAnyRankCannotTime) {
  register_hooks_of_ranks();
  std::vector<HookCosts> found(2);
  run_ranks(2, [&](const std::shared_ptr<World>& world) {
    rank_here = world->rank();
    found[static_cast<std::size_t>(rank_here)] =
        costs_of(*world, two_buckets(), {{"sleepy", "sleepy"}, {"b", "broken_on_rank_1"}, {"fp16", "fp16"}},
                 kPatient, kPatient);
  });
  for (const HookCosts& costs : found) {
    ASSERT_TRUE(costs.costs.at(0) && costs.costs.at(2));
    EXPECT_GE(busy_of(*costs.costs[0]), 2 * 0.02) << "two buckets on rank 1";
    EXPECT_EQ(busy_of(*costs.costs[0]), busy_of(*found[0].costs[0]));
    EXPECT_EQ(busy_of(*costs.costs[2]), busy_of(*found[0].costs[2]));
    EXPECT_FALSE(costs.costs[1]);
    EXPECT_EQ(costs.is_broken, (std::vector<bool>{false, true, false}));
    EXPECT_EQ(costs.seconds, found[0].seconds);
  }
  EXPECT_THAT(found[0].failures, ::testing::ElementsAre("b: another rank can't time it"));
  EXPECT_THAT(found[1].failures, ::testing::ElementsAre("b: this hook is broken"));
}

TEST(CostsOf, OmitWhatTheBudgetDoesNotCover) {
  register_hooks_of_ranks();
  run_ranks(2, [](const std::shared_ptr<World>& world) {
    rank_here = world->rank();
    const HookCosts costs =
        costs_of(*world, two_buckets(), {{"sleepy in fp16", "sleepy", "fp16"}, {"sleepy", "sleepy"}},
                 /*budget_seconds=*/0, kPatient);
    EXPECT_TRUE(costs.costs.at(1)) << "one is timed in any case, and those in a wrapper come last";
    EXPECT_FALSE(costs.costs.at(0));
    EXPECT_EQ(costs.is_broken, (std::vector<bool>{false, false}));
  });
}

TEST(CostOfHook, RefusesAnInvalidEstimate) {
  HookCost cost;
  cost.buckets.resize(3);
  EXPECT_EQ(failure_of<Error>([&] { cost_of_derived(cost); }),
            "the hook 'derived' estimates its own cost, and the estimate is for 3 buckets "
            "instead of 2");
  cost.buckets.resize(2);
  cost.buckets[0].busy_after = -1;
  EXPECT_EQ(failure_of<Error>([&] { cost_of_derived(cost); }),
            "the hook 'derived' estimates its own cost, and a number in it is negative or not finite");
}

}  // namespace
}  // namespace hookline
