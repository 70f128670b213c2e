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

// Sizes grow fast while latency is all that counts.
constexpr std::int64_t kLeastBytes = 64, kFastGrowth = 16, kFastUntil = 64 << 10, kGrowth = 4;
// Of so many the second fastest counts; of short ones more, since a single delay is long beside them.
constexpr int kTimes = 3, kTimesOfShort = 4;
constexpr double kShort = 0.005;  // seconds
constexpr std::size_t kWhich = 1;

/// Of all threads of this process, on a core.
double busy_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Prober {
 public:
  Prober(World& world, c10d::ProcessGroup& group, const std::string& name)
      : world_(world), group_(group), name_(name) {}

  /// The `which`-th fastest, from 0, of so many runs; its mean over all ranks.
  CollectiveTime measure(std::int64_t bytes, at::ScalarType type, int times, std::size_t which) {
    const auto element = static_cast<std::int64_t>(c10::elementSize(type));
    std::vector<at::Tensor> tensors{at::zeros({std::max<std::int64_t>(1, bytes / element)}, type)};
    std::vector<double> seconds, busy;
    for (int i = 0; i < times; ++i) {
      world_.barrier(name_);
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
    const std::vector<double> means = means_over_ranks(world_, {seconds[which], busy[which], spent_});
    spent_on_average_ = means[2];
    return {static_cast<double>(tensors[0].nbytes()), means[0], means[1]};
  }

  /// The same on every rank.
  double spent() const { return spent_on_average_; }

 private:
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

std::vector<double> of_slowest_rank(World& world, const std::vector<double>& values, double seconds) {
  std::vector<double> own = values;
  own.push_back(seconds);
  std::vector<double> slowest;
  for (const at::Tensor& each : world.all_gather(at::tensor(own, at::kDouble))) {
    const double* const first = each.const_data_ptr<double>();
    if (slowest.empty() || first[values.size()] > slowest.back()) slowest.assign(first, first + each.numel());
  }
  slowest.pop_back();
  return slowest;
}

LinkCost measure_link(World& world, c10d::ProcessGroup& group, std::int64_t largest_bytes,
                      double budget_seconds, const std::string& name) {
  Prober prober(world, group, name);
  prober.measure(kLeastBytes, at::kFloat, 1, 0);  // may open connections
  std::vector<CollectiveTime> full, half;
  const auto growth = [](std::int64_t bytes) { return bytes < kFastUntil ? kFastGrowth : kGrowth; };
  for (std::int64_t bytes = kLeastBytes;; bytes = std::min(bytes * growth(bytes), largest_bytes)) {
    const bool is_short = full.empty() || full.back().seconds * kGrowth < kShort;
    full.push_back(prober.measure(bytes, at::kFloat, is_short ? kTimesOfShort : kTimes, kWhich));
    if (bytes >= largest_bytes) break;
    // The next one takes at most as many times as long as it is larger; half as much is left for the others.
    const double next = kTimes * full.back().seconds * kGrowth;
    if (prober.spent() + next > budget_seconds / 2) break;
  }
  // The smallest, and the two that the times of larger ones follow from.
  for (std::size_t i = 0; i < full.size(); ++i) {
    if (i != 0 && i + 2 < full.size()) continue;
    half.push_back(prober.measure(static_cast<std::int64_t>(full[i].bytes), at::kHalf,
                                  full[i].seconds < kShort ? kTimesOfShort : kTimes, kWhich));
    // As many bytes take as long on the link, and no longer than their sum takes besides; else the network was in the way.
    half.back().seconds = std::min(half.back().seconds, full[i].seconds + half.back().busy_seconds);
  }
  return {CollectiveTimes(std::move(full)), CollectiveTimes(std::move(half))};
}

double time_all_reduce(World& world, c10d::ProcessGroup& group, std::int64_t bytes, const std::string& name) {
  return Prober(world, group, name).measure(bytes, at::kFloat, kLooks, 0).seconds;
}

}  // namespace hookline
