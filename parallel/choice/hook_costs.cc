#include "parallel/choice/hook_costs.h"

#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "hooks/registry/registry.h"
#include "parallel/choice/hook_timing.h"
#include "parallel/choice/link_cost.h"
#include "parallel/choice/measures.h"

namespace hookline {
namespace {

/// Calls `action` for each number in `cost` in which ranks may differ, in a fixed order: times first, the
/// margin last.
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

/// What one rank measured for a setting.
struct Timed {
  HookCost cost;
  std::string problem;  // why it can't be timed; empty: it was
};

Timed time_here(const HookSetting& setting, int ranks, const BucketParameters& buckets,
                double hopeless_seconds) {
  try {
    return {cost_of_hook(
                [&](const HookContext& context) {
                  return Registry::instance().build(setting.hook, setting.wrapper, setting.options, context);
                },
                ranks, buckets, hopeless_seconds),
            ""};
  } catch (const std::exception& error) {
    return {{}, error.what()};
  }
}

/// Replaces each of `costs` by that of the rank on which it takes the longest.
void take_slowest(World& world, const std::vector<HookCost*>& costs) {
  std::vector<TimedValues> own;
  for (HookCost* const cost : costs) {
    TimedValues& each = own.emplace_back();
    for_each_number(*cost, [&](double& number) { each.values.push_back(number); });
    each.seconds = std::accumulate(each.values.begin(), each.values.end() - 1, 0.0);  // without the margin
  }
  const std::vector<std::vector<double>> slowest = of_slowest_rank(world, own);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    auto next = slowest[i].begin();
    for_each_number(*costs[i], [&](double& number) { number = *next++; });
  }
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
    double elements;  // the parameter's share of the bucket
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

HookCost after_average_within_host(const HookCost& cost, const std::vector<BucketCost>& without_a_hook,
                                   const CollectiveTimes& inside) {
  HookCost result = cost;
  for (std::size_t i = 0; i < result.buckets.size(); ++i) {
    BucketCost& bucket = result.buckets[i];
    const double seconds = inside.of(without_a_hook.at(i).sends.at(0).bytes).seconds;
    Send average;  // 0 bytes: nothing goes through the network
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
  // One element per core, then the number of threads.
  const at::Tensor mask = at::zeros({CPU_SETSIZE + 1}, at::kInt);
  auto* const is_own = mask.mutable_data_ptr<int>();
  for (int core = 0; core < CPU_SETSIZE; ++core) is_own[core] = CPU_ISSET(core, &own) ? 1 : 0;
  is_own[CPU_SETSIZE] = at::get_num_threads();
  const std::vector<at::Tensor> masks = world.all_gather(mask);
  double fewest = std::numeric_limits<double>::infinity();
  for (const std::vector<int>& ranks : world.layout().hosts) {
    int cores = 0, threads = 0;
    for (const int rank : ranks)
      threads += masks[static_cast<std::size_t>(rank)].const_data_ptr<int>()[CPU_SETSIZE];
    for (int core = 0; core < CPU_SETSIZE; ++core)
      cores += std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
        return masks[static_cast<std::size_t>(rank)].const_data_ptr<int>()[core] != 0;
      });
    fewest = std::min(fewest, static_cast<double>(cores) / threads);
  }
  return std::max(1.0, fewest);
}

HookCosts costs_of(World& world, const BucketParameters& buckets, const std::vector<HookSetting>& settings,
                   double budget_seconds, double hopeless_seconds) {
  // Wrapped hooks come last: they only pay if links are slow, and then steps take so long that there is time
  // for all.
  std::vector<std::size_t> order;
  for (const bool is_wrapped : {false, true})
    for (std::size_t i = 0; i < settings.size(); ++i)
      if ((settings[i].wrapper != "no") == is_wrapped) order.push_back(i);
  // Each rank checks the budget by itself, since agreeing takes a message, which may take longer than timing
  // a hook.
  std::vector<Timed> timed;
  const auto start = std::chrono::steady_clock::now();
  double seconds = 0;
  for (std::size_t i = 0; i < order.size() && seconds <= budget_seconds; ++i) {
    timed.push_back(time_here(settings[order[i]], world.size(), buckets, hopeless_seconds));
    seconds = seconds_of(std::chrono::steady_clock::now() - start);
  }

  std::vector<double> own{seconds};
  for (std::size_t i = 0; i < order.size(); ++i)
    own.push_back(i >= timed.size() ? 2 : timed[i].problem.empty() ? 0 : 1);  // not timed, timed, can't be
  HookCosts result;
  result.costs.resize(settings.size());
  result.is_broken.resize(settings.size());
  const std::vector<at::Tensor> of_ranks = world.all_gather(at::tensor(own, at::kDouble));
  std::vector<HookCost*> costs;
  for (std::size_t i = 0; i <= order.size(); ++i) {
    std::vector<double> values;
    for (const at::Tensor& each : of_ranks) values.push_back(each.const_data_ptr<double>()[i]);
    if (i == 0) {
      result.seconds = *std::max_element(values.begin(), values.end());
      continue;
    }
    const std::size_t setting = order[i - 1];
    if (std::count(values.begin(), values.end(), 0) == world.size()) {
      result.costs[setting] = std::move(timed[i - 1].cost);
      costs.push_back(&*result.costs[setting]);
    } else if (std::count(values.begin(), values.end(), 1) > 0) {
      result.is_broken[setting] = true;
      std::string why = i - 1 < timed.size() ? timed[i - 1].problem : "";
      if (why.empty()) why = "another rank can't time it";
      result.failures.push_back(settings[setting].name + ": " + why);
    }
  }
  take_slowest(world, costs);
  return result;
}

}  // namespace hookline
