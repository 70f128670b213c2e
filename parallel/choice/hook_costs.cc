#include "parallel/choice/hook_costs.h"

#include <ATen/Parallel.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "hooks/registry.h"
#include "parallel/choice/hook_timing.h"
#include "parallel/choice/link_cost.h"
#include "parallel/choice/measures.h"

namespace hookline {
namespace {

/// Every number of `cost` that ranks may differ in, in one order: seconds, and last the margin.
template <class Action>
void for_each_number(HookCost& cost, const Action& action) {
  for (BucketCost& bucket : cost.buckets) {
    for (Send& send : bucket.sends) {
      action(send.busy_before);
      action(send.busy_after);
    }
    action(bucket.busy_after);
  }
  action(cost.margin);
}

/// Nothing if it can't be timed on some rank, which then says why in `problem`.
std::optional<HookCost> agreed_cost(World& world, const HookSetting& setting, const BucketParameters& buckets,
                                    double hopeless_seconds, std::string& problem) {
  HookCost cost;
  try {
    cost = cost_of_hook(
        [&](const HookContext& context) {
          return Registry::instance().build(setting.hook, setting.wrapper, setting.options, context);
        },
        world.size(), buckets, hopeless_seconds);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (means_over_ranks(world, {problem.empty() ? 0.0 : 1.0})[0] > 0) {
    if (problem.empty()) problem = "another rank can't time it";
    return std::nullopt;
  }
  std::vector<double> numbers;
  double seconds = -cost.margin;  // which is the last number, and none of seconds
  for_each_number(cost, [&](double& number) {
    numbers.push_back(number);
    seconds += number;
  });
  numbers = of_slowest_rank(world, numbers, seconds);
  auto next = numbers.begin();
  for_each_number(cost, [&](double& number) { number = *next++; });
  return cost;
}

}  // namespace

std::vector<BucketCost> cost_without_a_hook(const BucketParameters& buckets) {
  std::vector<BucketCost> costs;
  for (const auto& bucket : buckets) {
    Send send;
    for (const at::Tensor& parameter : bucket) send.bytes += static_cast<double>(parameter.nbytes());
    send.is_half = bucket.at(0).element_size() == 2;
    costs.push_back({{send}, 0});
  }
  return costs;
}

double cores_of_a_rank(World& world) {
  cpu_set_t own;
  CPU_ZERO(&own);
  if (::sched_getaffinity(0, sizeof own, &own) != 0) CPU_SET(0, &own);
  const at::Tensor mask = at::zeros({CPU_SETSIZE}, at::kByte);
  for (int core = 0; core < CPU_SETSIZE; ++core) mask[core] = CPU_ISSET(core, &own) ? 1 : 0;
  const std::vector<at::Tensor> masks = world.all_gather(mask);
  const std::vector<int>& ranks = world.layout().local_ranks();
  at::Tensor any = at::zeros_like(mask);
  for (const int rank : ranks) any = at::maximum(any, masks[static_cast<std::size_t>(rank)]);
  const auto cores = static_cast<double>(any.sum().item<std::int64_t>());
  return std::max(1.0, cores / static_cast<double>(ranks.size()) / at::get_num_threads());
}

HookCosts costs_of(World& world, const BucketParameters& buckets, const std::vector<HookSetting>& settings,
                   double budget_seconds, double hopeless_seconds) {
  HookCosts result;
  result.costs.resize(settings.size());
  // A wrapper pays where links are slow, and steps take so long that there is time for all.
  for (const bool is_wrapped : {false, true}) {
    for (std::size_t i = 0; i < settings.size(); ++i) {
      const HookSetting& setting = settings[i];
      if ((setting.wrapper != "no") != is_wrapped) continue;
      if (result.seconds > budget_seconds) {
        result.left_out.push_back(setting.name + ": timing the others took long enough");
        continue;
      }
      const auto start = std::chrono::steady_clock::now();
      std::string problem;
      result.costs[i] = agreed_cost(world, setting, buckets, hopeless_seconds, problem);
      if (!result.costs[i]) result.left_out.push_back(setting.name + ": " + problem);
      result.seconds += means_over_ranks(world, {seconds_of(std::chrono::steady_clock::now() - start)})[0];
    }
  }
  return result;
}

}  // namespace hookline
