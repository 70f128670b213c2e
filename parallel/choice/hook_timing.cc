#include "parallel/choice/hook_timing.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/text/count_text.h"
#include "hooks/future.h"
#include "parallel/groups/future_work.h"

namespace hookline {
namespace {

constexpr int kRank = 1, kMeasuredSteps = 3, kLatestStart = 10;
constexpr double kAgreement = 0.1;  // relative: if two measured steps agree, no third is needed

/// Measures the seconds since the last lap.
class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> since = now - std::exchange(last_, now);
    return since.count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Records what a hook hands to collectives. Nothing leaves this rank.
class Recording {
 public:
  void begin_bucket() {
    cost_ = {};
    pending_.clear();
    over_ = -1;
    watch_.lap();
  }

  FuturePtr start(const at::Tensor& tensor) {
    Send send;
    send.after = over_;
    send.busy_before = watch_.lap();
    send.bytes = static_cast<double>(tensor.nbytes());
    send.is_half = tensor.element_size() == 2;
    cost_.sends.push_back(send);
    pending_.push_back({make_future(tensor.device()), tensor});
    const FuturePtr future = pending_.back().future;
    watch_.lap();
    return future;
  }

  /// Completes the collectives in the order in which they were started, including those that start on
  /// completion of others.
  BucketCost end_bucket() {
    cost_.busy_after = watch_.lap();
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      over_ = static_cast<int>(i);
      const Pending pending = pending_[i];
      watch_.lap();
      pending.future->markCompleted(pending.tensor);
      cost_.sends[i].busy_after = watch_.lap();
    }
    return std::move(cost_);
  }

 private:
  struct Pending {
    FuturePtr future;
    at::Tensor tensor;
  };
  BucketCost cost_;
  std::vector<Pending> pending_;
  int over_ = -1;  // the collective that has just ended; -1: none has
  Stopwatch watch_;
};

class RecordingGroup : public c10d::ProcessGroup {
 public:
  RecordingGroup(int rank, int size, std::shared_ptr<Recording> recording)
      : ProcessGroup(rank, size), recording_(std::move(recording)) {}

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions&) override {
    return c10::make_intrusive<FutureWork>(recording_->start(tensors.at(0)));
  }

 private:
  std::shared_ptr<Recording> recording_;
};

/// The buckets of a step, filled with the current gradients. A parameter without one contributes its own
/// values.
class Buckets {
 public:
  explicit Buckets(const BucketParameters& parameters) : parameters_(parameters) {
    for (const auto& bucket : parameters_) {
      std::int64_t elements = 0;
      for (const at::Tensor& parameter : bucket) elements += parameter.numel();
      buffers_.push_back(at::empty({elements}, bucket.at(0).options().requires_grad(false)));
    }
  }

  std::size_t size() const { return parameters_.size(); }

  void fill() {
    for (std::size_t i = 0; i < size(); ++i) {
      std::int64_t at = 0;
      for (const at::Tensor& parameter : parameters_[i]) {
        const at::Tensor& from = parameter.grad().defined() ? parameter.grad() : parameter;
        buffers_[i].narrow(0, at, parameter.numel()).copy_(from.detach().reshape({-1}));
        at += parameter.numel();
      }
    }
  }

  c10d::GradBucket bucket(std::size_t index) const {
    std::vector<std::size_t> offsets, lengths;
    std::vector<c10::IntArrayRef> sizes;
    std::size_t at = 0;
    for (const at::Tensor& parameter : parameters_[index]) {
      offsets.push_back(at);
      lengths.push_back(static_cast<std::size_t>(parameter.numel()));
      sizes.push_back(parameter.sizes());
      at += lengths.back();
    }
    return c10d::GradBucket(index, size(), buffers_[index], offsets, lengths, sizes, parameters_[index],
                            std::nullopt);
  }

 private:
  const BucketParameters& parameters_;
  std::vector<at::Tensor> buffers_;
};

double busy_of(const std::vector<BucketCost>& costs) {
  double busy = 0;
  for (const BucketCost& cost : costs) {
    busy += cost.busy_after;
    for (const Send& send : cost.sends) busy += send.busy_before + send.busy_after;
  }
  return busy;
}

void expect_sound(const HookCost& cost, std::size_t buckets, const CommHook& hook) {
  const auto refuse = [&](const std::string& why) {
    throw Error("the hook '" + hook.describe() + "' estimates its own cost, and " + why);
  };
  if (cost.buckets.size() != buckets)
    refuse("the estimate is for " + count_text(cost.buckets.size(), "bucket") + " instead of " +
           std::to_string(buckets));
  const auto is_sound = [](double number) { return std::isfinite(number) && number >= 0; };
  bool all = is_sound(cost.margin);
  for (const BucketCost& bucket : cost.buckets) {
    all = all && is_sound(bucket.busy_after);
    for (const Send& send : bucket.sends)
      all = all && is_sound(send.busy_before) && is_sound(send.busy_after) && is_sound(send.bytes);
  }
  if (!all) refuse("a number in it is negative or not finite");
}

HookCost timed(CommHook& hook, Recording& recording, const BucketParameters& buckets,
               double hopeless_seconds) {
  Buckets step(buckets);
  if (hook.first_full_step() > kLatestStart)
    throw Error("the hook '" + hook.describe() + "' compresses from step " +
                std::to_string(hook.first_full_step()) + " on, and to be measured it must begin by step " +
                std::to_string(kLatestStart));
  const std::int64_t unmeasured = std::max<std::int64_t>(1, hook.first_full_step() + 1);
  std::vector<std::vector<BucketCost>> steps;
  for (std::int64_t number = 0; number < unmeasured + kMeasuredSteps; ++number) {
    step.fill();
    std::vector<BucketCost> costs;
    for (std::size_t i = 0; i < step.size(); ++i) {
      c10d::GradBucket bucket = step.bucket(i);
      recording.begin_bucket();
      const FuturePtr result = hook.run(GradBucket(bucket));
      costs.push_back(recording.end_bucket());
      tensor_of(*result);  // throws the error if the hook failed
    }
    if (number < unmeasured) continue;
    steps.push_back(std::move(costs));
    const double busy = busy_of(steps.back());
    if (busy > hopeless_seconds) break;
    if (steps.size() == 2 && std::abs(busy - busy_of(steps[0])) <= kAgreement * busy) break;
  }
  std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return busy_of(a) < busy_of(b); });
  const std::size_t middle = (steps.size() - 1) / 2;
  const double median = busy_of(steps[middle]), slowest = busy_of(steps.back());
  return {std::move(steps[middle]), median > 0 ? slowest / median - 1 : 0, HookCost::Known::measured};
}

}  // namespace

HookCost cost_of_hook(const HookBuilder& build, int world_size, const BucketParameters& buckets,
                      double hopeless_seconds) {
  const at::NoGradGuard no_grad;
  const auto recording = std::make_shared<Recording>();
  const auto comm = std::make_shared<Comm>(kRank, world_size, [&](const std::string&) {
    return c10::make_intrusive<RecordingGroup>(kRank, world_size, recording);
  });
  const std::unique_ptr<CommHook> hook = build({comm, true});
  if (auto estimate = hook->estimate_cost(buckets)) {
    expect_sound(*estimate, buckets.size(), *hook);
    return *std::move(estimate);
  }
  return timed(*hook, *recording, buckets, hopeless_seconds);
}

}  // namespace hookline
