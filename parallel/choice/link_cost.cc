#include "parallel/choice/link_cost.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

namespace hookline {
namespace {

// Sizes grow fast as long as latency dominates.
constexpr std::int64_t kLeastBytes = 64, kGrowth = 4, kFewBytes = 16 << 10;
std::int64_t next_size(std::int64_t bytes, std::int64_t largest) {
  bytes *= bytes < kFewBytes ? 256 : bytes < (256 << 10) ? 16 : kGrowth;
  return 2 * bytes > largest ? largest : bytes;  // two sizes that are nearly the same show no more than one
}
// Of kTimes all-reduces the second fastest counts. Of short ones the fastest counts, since delays are long in
// comparison: Gloo's event loop may occupy the sending thread's core for a tick of the kernel's clock.
constexpr int kTimes = 3;
constexpr double kShort = 0.005;  // seconds

/// CPU time of all threads of this process.
double busy_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Prober {
 public:
  Prober(World& world, c10d::ProcessGroup& group, const std::string& name)
      : world_(world), group_(group), name_(name) {}

  /// The mean over all ranks of the fastest of kTimes all-reduces, or for long ones, of the second fastest.
  CollectiveTime measure(std::int64_t bytes, at::ScalarType type) {
    return run(bytes, type, kTimes,
               [](const std::vector<double>& sorted) { return sorted[1] < kShort ? 0 : 1; });
  }

  /// The mean over all ranks of the fastest of `times` all-reduces.
  CollectiveTime fastest_of(int times, std::int64_t bytes) {
    return run(bytes, at::kFloat, times, [](const std::vector<double>&) { return 0; });
  }

  /// Seconds spent so far; the same on every rank.
  double spent() const { return spent_on_average_; }

 private:
  /// Runs the all-reduces one after another. Each ends on all ranks at about the same time, so no barrier is
  /// needed.
  template <class Which>
  CollectiveTime run(std::int64_t bytes, at::ScalarType type, int times, Which which) {
    const auto element = static_cast<std::int64_t>(c10::elementSize(type));
    std::vector<at::Tensor> tensors{at::zeros({std::max<std::int64_t>(1, bytes / element)}, type)};
    std::vector<double> seconds, busy;
    for (int i = 0; i < times; ++i) {
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
    const std::vector<double> means = means_over_ranks(world_, {seconds[chosen], busy[chosen], spent_});
    spent_on_average_ = means[2];
    return {static_cast<double>(tensors[0].nbytes()), means[0], means[1]};
  }

  World& world_;
  c10d::ProcessGroup& group_;
  std::string name_;
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
  prober.fastest_of(1, kLeastBytes);  // may open connections
  std::vector<CollectiveTime> full, half;
  for (std::int64_t bytes = kLeastBytes;;) {
    full.push_back(prober.measure(bytes, at::kFloat));
    if (bytes >= largest_bytes) break;
    // The time grows at most with the size, once latency no longer dominates. Half of the budget is kept for
    // the all-reduces in half precision.
    const auto fits = [&](std::int64_t next) {
      const double longer =
          bytes < kFewBytes ? kGrowth : static_cast<double>(next) / static_cast<double>(bytes);
      return prober.spent() + kTimes * full.back().seconds * longer <= budget_seconds / 2;
    };
    std::int64_t next = next_size(bytes, largest_bytes);
    if (!fits(next)) next = std::min(kGrowth * bytes, largest_bytes);
    if (!fits(next)) break;
    bytes = next;
  }
  // In half precision, only the two largest sizes are measured. At the smallest size latency dominates, which
  // is the same; all other times follow from these.
  for (std::size_t i = 0; i < full.size(); ++i) {
    if (i + 2 < full.size()) {
      if (i == 0) half.push_back(full[0]);
      continue;
    }
    half.push_back(prober.measure(static_cast<std::int64_t>(full[i].bytes), at::kHalf));
    // The same bytes take the same time on the link, and at most the time of their summation more. Anything
    // beyond that was a disturbance of the network.
    half.back().seconds = std::min(half.back().seconds, full[i].seconds + half.back().busy_seconds);
  }
  return {CollectiveTimes(std::move(full)), CollectiveTimes(std::move(half))};
}

double time_all_reduce(World& world, c10d::ProcessGroup& group, std::int64_t bytes, const std::string& name) {
  return Prober(world, group, name).fastest_of(kLooks, bytes).seconds;
}

}  // namespace hookline
