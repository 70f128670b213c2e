#include "parallel/choice/link_cost.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace hookline {
namespace {

// The first two sizes, in which latency dominates; then they grow, fast at first.
constexpr std::int64_t kLeastBytes = 64, kFewBytes = 16 << 10, kGrowth = 4;
std::int64_t next_size(std::int64_t bytes, std::int64_t largest) {
  bytes *= bytes < (256 << 10) ? 16 : kGrowth;
  return 2 * bytes > largest ? largest : bytes;  // two sizes that are nearly the same show no more than one
}
// Of kTimes all-reduces the second fastest counts. Of short ones the fastest counts, since delays are long in
// comparison: a thread may wait for the kernel's next tick until it gets the core.
constexpr int kTimes = 3;
constexpr double kShort = 0.005;           // seconds
constexpr std::int64_t kCached = 4 << 20;  // bytes: a sum of more does not stay in a core's cache

/// CPU time of all threads of this process.
double busy_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Times all-reduces. The ranks agree on several results in one message, since a message may take as long as
/// the all-reduce whose time it carries.
class Prober {
 public:
  Prober(World& world, c10d::ProcessGroup& group, const std::string& name)
      : world_(world), group_(group), name_(name) {}

  /// Of kTimes all-reduces the fastest counts, or of long ones the second fastest; agree() adds it to
  /// `times`.
  void run(std::int64_t bytes, at::ScalarType type, std::vector<CollectiveTime>& times) {
    run(kTimes, bytes, type, times,
        [](const std::vector<double>& sorted) { return sorted[1] < kShort ? 0 : 1; });
  }

  /// As above, for the fastest of `count`.
  void run_for_fastest(int count, std::int64_t bytes, std::vector<CollectiveTime>& times) {
    run(count, bytes, at::kFloat, times, [](const std::vector<double>&) { return 0; });
  }

  /// Adds the means over all ranks of what was measured since the last call. A collective call.
  void agree() {
    std::vector<double> own{spent_};
    for (const auto& [time, times] : new_) own.insert(own.end(), {time.seconds, time.busy_seconds});
    const std::vector<double> means = means_over_ranks(world_, own);
    spent_on_average_ = means[0];
    auto mean = means.begin() + 1;
    for (auto& [time, times] : new_) {
      time.seconds = *mean++;
      time.busy_seconds = *mean++;
      times->push_back(time);
    }
    new_.clear();
  }

  /// Seconds spent until the last agree(); the same on every rank.
  double spent() const { return spent_on_average_; }

 private:
  /// Runs the all-reduces one after another. Each ends on all ranks at about the same time, so no barrier is
  /// needed.
  template <class Which>
  void run(int count, std::int64_t bytes, at::ScalarType type, std::vector<CollectiveTime>& times,
           Which which) {
    const auto element = static_cast<std::int64_t>(c10::elementSize(type));
    std::vector<at::Tensor> tensors{at::zeros({std::max<std::int64_t>(1, bytes / element)}, type)};
    std::vector<double> seconds, busy;
    for (int i = 0; i < count; ++i) {
      const double busy_before = busy_seconds();
      const auto start = std::chrono::steady_clock::now();
      world_.wait(group_.allreduce(tensors), name_);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      seconds.push_back(took.count());
      busy.push_back(busy_seconds() - busy_before);
      spent_ += took.count();
    }
    std::sort(seconds.begin(), seconds.end());
    std::sort(busy.begin(), busy.end());
    const auto chosen = static_cast<std::size_t>(which(seconds));
    new_.emplace_back(CollectiveTime{static_cast<double>(tensors[0].nbytes()), seconds[chosen], busy[chosen]},
                      &times);
  }

  World& world_;
  c10d::ProcessGroup& group_;
  std::string name_;
  std::vector<std::pair<CollectiveTime, std::vector<CollectiveTime>*>>
      new_;  // this rank's, not yet agreed on
  double spent_ = 0, spent_on_average_ = 0;
};

}  // namespace

std::vector<double> means_over_ranks(World& world, const std::vector<double>& values) {
  const at::Tensor all = at::tensor(values, at::kDouble);
  world.all_reduce(all);
  all.div_(world.size());
  const double* const first = all.const_data_ptr<double>();
  return {first, first + all.numel()};
}

std::vector<std::vector<double>> of_slowest_rank(World& world, const std::vector<TimedValues>& own) {
  if (own.empty()) return {};
  std::vector<double> numbers;
  for (const TimedValues& each : own) {
    numbers.push_back(each.seconds);
    numbers.insert(numbers.end(), each.values.begin(), each.values.end());
  }
  const std::vector<at::Tensor> of_ranks = world.all_gather(at::tensor(numbers, at::kDouble));
  std::vector<std::vector<double>> all;
  std::size_t first = 0;
  for (const TimedValues& each : own) {
    const double* slowest = nullptr;
    for (const at::Tensor& of_rank : of_ranks) {
      const double* const its = of_rank.const_data_ptr<double>() + first;
      if (!slowest || *its > *slowest) slowest = its;
    }
    all.emplace_back(slowest + 1, slowest + 1 + each.values.size());
    first += 1 + each.values.size();
  }
  return all;
}

LinkCost measure_link(World& world, c10d::ProcessGroup& group, std::int64_t largest_bytes,
                      double budget_seconds, const std::string& name) {
  Prober prober(world, group, name);
  std::vector<CollectiveTime> full, half, first;
  prober.run_for_fastest(1, kLeastBytes, first);  // may open connections
  std::vector<std::int64_t> sizes;
  const auto add_size = [&](std::int64_t bytes) {
    sizes.push_back(bytes);
    prober.run(bytes, at::kFloat, full);
  };
  add_size(kLeastBytes);
  if (largest_bytes > kLeastBytes) add_size(std::min(kFewBytes, largest_bytes));
  // The time grows at most in proportion to the size, once latency no longer dominates. Half of the budget is
  // kept for the all-reduces in half precision.
  const auto fits = [&](std::int64_t next) {
    const double longer = static_cast<double>(next) / static_cast<double>(sizes.back());
    return prober.spent() + kTimes * full.back().seconds * longer <= budget_seconds / 2;
  };
  while (sizes.back() < largest_bytes) {
    prober.agree();
    std::int64_t next = next_size(sizes.back(), largest_bytes);
    if (!fits(next)) next = std::min(kGrowth * sizes.back(), largest_bytes);
    if (!fits(next)) break;
    add_size(next);
  }
  // In half precision, only the largest size is measured, and the one before it if sums of the largest leave
  // the cache. At the smallest size latency dominates, which is the same; all other times follow from these.
  const std::size_t measured_half = std::min<std::size_t>(sizes.size(), sizes.back() > kCached ? 2 : 1);
  const std::size_t first_half = sizes.size() - measured_half;
  for (std::size_t i = first_half; i < sizes.size(); ++i) prober.run(sizes[i], at::kHalf, half);
  prober.agree();
  // The same bytes take the same time on the link, plus at most the time that it takes to sum them. Anything
  // beyond that was a disturbance of the network.
  for (std::size_t i = 0; i < half.size(); ++i)
    half[i].seconds = std::min(half[i].seconds, full[first_half + i].seconds + half[i].busy_seconds);
  if (first_half > 0) half.insert(half.begin(), full[0]);
  return {CollectiveTimes(std::move(full)), CollectiveTimes(std::move(half))};
}

double time_all_reduce(World& world, c10d::ProcessGroup& group, std::int64_t bytes, const std::string& name) {
  Prober prober(world, group, name);
  std::vector<CollectiveTime> times;
  prober.run_for_fastest(kLooks, bytes, times);
  prober.agree();
  return times[0].seconds;
}

}  // namespace hookline
