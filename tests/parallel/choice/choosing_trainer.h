// A model that chooses its hook, for tests. The hooks' durations differ by far more than noise.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hooks/registry/registry.h"
#include "parallel/choice/hook_chooser.h"
#include "parallel/distributed_module.h"
#include "tests/support/run_ranks.h"

namespace hookline::testing {

/// Uses Gloo, which takes twice as long for these gradients as the rest of a step.
inline void run_ranks_over_gloo(int ranks, const RankBody& body) {
  Placement placement;
  placement.shared_memory = SharedMemory::never;
  run_ranks(ranks, body, placement);
}

/// 24 MB of gradients and almost no arithmetic, so a hook that sends nothing is far faster than no hook.
struct LargeImpl : torch::nn::Module {
  LargeImpl() { weight = register_parameter("weight", torch::zeros({3000, 2000})); }
  at::Tensor forward(const at::Tensor& x) { return (weight.narrow(0, 0, 1) * x).sum(); }
  at::Tensor weight;
};

/// As many gradients, in 16 parameters.
struct ManyImpl : torch::nn::Module {
  ManyImpl() {
    for (int i = 0; i < 16; ++i)
      weights.push_back(register_parameter("weight" + std::to_string(i), torch::zeros({187, 2000})));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor sum = torch::zeros({});
    for (const at::Tensor& weight : weights) sum = sum + (weight.narrow(0, 0, 1) * x).sum();
    return sum;
  }
  std::vector<at::Tensor> weights;
};

inline std::atomic<int> fickle_takes = 0;  // milliseconds

/// Sends nothing; its n-th run sleeps for `takes(n)` milliseconds.
class FreeHook : public CommHook {
 public:
  FreeHook(HookContext context, std::function<int(int)> takes)
      : CommHook(std::move(context)), takes_(std::move(takes)) {}
  FuturePtr run(GradBucket bucket) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(takes_(++runs_)));
    return completed(bucket.buffer());
  }
  std::string describe() const override { return "free"; }

 private:
  std::function<int(int)> takes_;
  int runs_ = 0;
};

/// Sends nothing, and sleeps 20 ms for each bucket but the first.
class TollHook : public CommHook {
 public:
  using CommHook::CommHook;
  FuturePtr run(GradBucket bucket) override {
    if (bucket.index() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return completed(bucket.buffer());
  }
  std::string describe() const override { return "toll"; }
};

/// Sends nothing and zeroes the gradients; its byte count claims that it compresses.
class ForgetfulHook : public CommHook {
 public:
  using CommHook::CommHook;
  FuturePtr run(GradBucket bucket) override { return completed(bucket.buffer().zero_()); }
  std::string describe() const override { return "forgetful"; }
  std::int64_t bytes_per_step(const std::vector<BucketShapes>&, at::ScalarType) const override { return 0; }
};

/// Sends nothing. Its first six results are NaN, so its error is NaN when first measured, and a number when
/// last measured.
class LapsingHook : public CommHook {
 public:
  using CommHook::CommHook;
  FuturePtr run(GradBucket bucket) override {
    if (++runs_ < 7) bucket.buffer().fill_(std::numeric_limits<double>::quiet_NaN());
    return completed(bucket.buffer());
  }
  std::string describe() const override { return "lapsing"; }
  std::int64_t bytes_per_step(const std::vector<BucketShapes>&, at::ScalarType) const override { return 0; }

 private:
  int runs_ = 0;
};

inline HookRow row_of(const std::string& name) {
  HookRow row;
  row.name = name;
  row.summary = "Sends nothing.";
  row.source = row.parity = "none";
  return row;
}

inline void register_hooks() {
  static const bool once = [] {
    const auto add = [](const char* name, std::function<int(int)> takes) {
      Registry::instance().add(row_of(name), [takes](HookContext context, const OptionMap&) {
        return std::make_unique<FreeHook>(std::move(context), takes);
      });
    };
    add("free", [](int) { return 0; });
    add("slow", [](int) { return 400; });
    add("deceptive", [](int run) { return run < 5 ? 0 : 400; });  // timing it takes three or four runs
    add("fickle", [](int) { return fickle_takes.load(); });
    Registry::instance().add(row_of("toll"), [](HookContext context, const OptionMap&) {
      return std::make_unique<TollHook>(std::move(context));
    });
    Registry::instance().add(row_of("lapsing"), [](HookContext context, const OptionMap&) {
      return std::make_unique<LapsingHook>(std::move(context));
    });
    Registry::instance().add(row_of("forgetful"), [](HookContext context, const OptionMap&) {
      return std::make_unique<ForgetfulHook>(std::move(context));
    });
    return true;
  }();
  EXPECT_TRUE(once);
}

/// Steps before the choice: 3 to settle, 8 without a hook, 5 deferred, and a first one before measuring
/// starts.
inline constexpr int kMeasured = 1 + 3 + 8 + 5, kProved = 2 + 8, kWindow = 8;

/// Tolerates steps that other programs make several times slower.
inline constexpr WatchRule kTolerant{8, 0.99, 2, 8};

template <class Net>
struct TrainerOf {
  TrainerOf(const std::shared_ptr<World>& its_world, const std::vector<std::string>& hooks,
            ChoiceOptions options = {}, int first_window = 8)
      : world(its_world), model(world, net, DdpOptions()) {
    register_hooks();
    std::vector<HookSetting> settings;
    for (const std::string& hook : hooks) settings.push_back({hook, hook});
    options.steps.plain = 8;
    options.steps.deferred = 4;
    options.steps.first_window = first_window;
    options.steps.window = kWindow;
    options.steps.least_seconds = 0;
    options.steps.seconds = 1e6;  // no time limit
    options.watch = kTolerant;
    chooser = std::make_unique<HookChooser>(world, model.ddp(), settings, options);
    model.ddp().after_each_step([this] { chooser->after_step(); });
  }

  /// `steps` steps; `before` is called before each.
  void train(
      int steps, const std::function<void()>& before = [] {}) {
    for (int i = 0; i < steps; ++i, ++step) {
      for (at::Tensor& parameter : net->parameters()) parameter.mutable_grad() = at::Tensor();
      before();
      model.forward(torch::ones({2000})).backward();
    }
  }
  std::string chosen() const { return chooser->chosen() ? *chooser->chosen() : "measuring"; }
  std::string hook() { return model.ddp().hook() ? model.ddp().hook()->describe() : "none"; }

  std::shared_ptr<World> world;
  std::shared_ptr<Net> net = std::make_shared<Net>();
  DistributedModule<Net> model;
  std::unique_ptr<HookChooser> chooser;
  int step = 0;
};
using Trainer = TrainerOf<LargeImpl>;

}  // namespace hookline::testing
