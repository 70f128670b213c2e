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
#include <unordered_map>
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

HookCost in_other_buckets(const HookCost& cost, const BucketParameters& buckets,
                          const BucketParameters& others) {
  struct Part {
    const BucketCost* bucket;
    double elements;  // of the bucket, a parameter's
  };
  std::unordered_map<const c10::TensorImpl*, Part> parts;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    double elements = 0;
    for (const at::Tensor& parameter : buckets[i]) elements += static_cast<double>(parameter.numel());
    for (const at::Tensor& parameter : buckets[i])
      parts[parameter.unsafeGetTensorImpl()] = {
          &cost.buckets.at(i), elements > 0 ? static_cast<double>(parameter.numel()) / elements : 0};
  }
  HookCost result{{}, cost.margin, HookCost::Known::derived};
  for (const auto& bucket : others) {
    BucketCost sum;
    for (const at::Tensor& parameter : bucket) {
      const auto& [from, part] = parts.at(parameter.unsafeGetTensorImpl());
      sum.busy_after += part * from->busy_after;
      for (std::size_t i = 0; i < from->sends.size(); ++i) {
        const Send& send = from->sends[i];
        if (i == sum.sends.size()) sum.sends.push_back({send.after, 0, 0, send.is_half, 0});
        sum.sends[i].busy_before += part * send.busy_before;
        sum.sends[i].bytes += part * send.bytes;
        sum.sends[i].busy_after += part * send.busy_after;
      }
    }
    result.buckets.push_back(std::move(sum));
  }
  return result;
}

HookCost behind_an_average_inside(const HookCost& cost, const std::vector<BucketCost>& without_a_hook,
                                  const CollectiveTimes& inside) {
  HookCost result = cost;
  for (std::size_t i = 0; i < result.buckets.size(); ++i) {
    BucketCost& bucket = result.buckets[i];
    const double seconds = inside.of(without_a_hook.at(i).sends.at(0).bytes).seconds;
    Send average;  // of no bytes: nothing goes through the network
    average.busy_after = std::exchange(bucket.busy_after, 0);
    for (Send& send : bucket.sends) ++send.after;
    (bucket.sends.empty() ? average.busy_after : bucket.sends[0].busy_before) += seconds;
    bucket.sends.insert(bucket.sends.begin(), average);
  }
  return result;
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
  result.is_broken.resize(settings.size());
  // A wrapper pays where links are slow, and steps take so long that there is time for all.
  for (const bool is_wrapped : {false, true}) {
    for (std::size_t i = 0; i < settings.size(); ++i) {
      const HookSetting& setting = settings[i];
      if ((setting.wrapper != "no") != is_wrapped) continue;
      if (result.seconds > budget_seconds) continue;
      const auto start = std::chrono::steady_clock::now();
      std::string problem;
      result.costs[i] = agreed_cost(world, setting, buckets, hopeless_seconds, problem);
      result.is_broken[i] = !result.costs[i];
      if (result.is_broken[i]) result.failures.push_back(setting.name + ": " + problem);
      result.seconds += means_over_ranks(world, {seconds_of(std::chrono::steady_clock::now() - start)})[0];
    }
  }
  return result;
}

}  // namespace hookline
