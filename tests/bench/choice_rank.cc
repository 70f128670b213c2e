// One rank of the comm_hook = "auto" benchmark: lets the run choose a hook, predicts the step time of every
// hook, and then measures each of them.
//
//     choice_rank MODEL [HOOK...]       MODEL: perceptron, charlm or conv; HOOK: those to measure, else all
//
// Rank 0 prints one JSON object with times in seconds per step: {"chosen", "measuring_seconds",
// "measured_step", "settings": [{"name", "predicted", "measured"}]}.
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/nll_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "examples/charlm/transformer.h"
#include "examples/digits/net.h"
#include "hooks/registry/registry.h"
#include "parallel/choice/bucket_sizes.h"
#include "parallel/choice/hook_chooser.h"
#include "parallel/choice/hook_in_use.h"
#include "parallel/choice/link_cost.h"
#include "parallel/choice/measures.h"
#include "parallel/choice/setting_list.h"
#include "parallel/hookline.h"

namespace hookline {
namespace {

constexpr std::int64_t kBatch = 32;
constexpr double kSeconds = 1;       // for each setting, as long as steps are short
constexpr double kLong = 5;          // seconds of a step so long that measuring one is enough
constexpr double kFarBehind = 5;     // this many times slower than the fastest: once is enough
constexpr std::size_t kFastest = 5;  // these are measured again, as often as kRounds says
constexpr int kRounds = 4;

/// Runs steps until `chooser` has measured and settled its choice.
void settle(Ddp& ddp, HookChooser& chooser, const std::function<void()>& step) {
  ddp.after_each_step([&] { chooser.after_step(); });
  while (!chooser.is_settled()) step();
  ddp.after_each_step({});
}

using Seconds = std::map<std::string, double>;

void print(const ChoiceReport& chosen, const MeasuredStep& step, const Seconds& predicted,
           const Seconds& measured) {
  nlohmann::ordered_json json = {{"chosen", chosen.chosen},
                                 {"measuring_seconds", chosen.measuring_seconds},
                                 {"measured_step", nlohmann::ordered_json::parse(to_json(step))},
                                 {"settings", nlohmann::ordered_json::array()}};
  for (const auto& [name, seconds] : measured) {
    const auto prediction = predicted.find(name);
    json["settings"].push_back({{"name", name},
                                {"predicted", prediction == predicted.end() ? 0 : prediction->second},
                                {"measured", seconds}});
  }
  std::printf("%s\n", json.dump().c_str());
}

/// One setting that the sweep measures.
struct Candidate {
  HookSetting setting;
  std::size_t layout;  // index of its bucket layout
};

/// The median; of an even number of values, the higher of the two middle ones.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// What a step takes after a hook has settled, by the statistic that the chooser uses, since it predicts just
/// that: each rank's lower quartile, averaged over the ranks.
double seconds_of_steps(World& world, Ddp& ddp, const std::function<void()>& step) {
  using Clock = std::chrono::steady_clock;
  const std::int64_t unmeasured = 2 + (ddp.hook() ? ddp.hook()->first_full_step() : 0);
  for (std::int64_t i = 0; i < unmeasured; ++i) step();
  const auto timed = [&] {
    const auto start = Clock::now();
    step();
    return seconds_of(Clock::now() - start);
  };
  const double first = means_over_ranks(world, {timed()})[0];
  std::vector<double> seconds{first};
  for (int left = first > kLong ? 0 : std::clamp(static_cast<int>(kSeconds / first), 3, 200); left > 0;
       --left)
    seconds.push_back(timed());
  return means_over_ranks(world, {lower_quartile(std::move(seconds))})[0];
}

template <class Net>
void run(Accelerator& accelerator, Net net, const std::vector<std::string>& hooks,
         const std::function<at::Tensor(DistributedModule<typename Net::ContainedType>&)>& loss) {
  torch::optim::SGD sgd(net->parameters(), 0.01);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  const auto step = [&, &model = model, &optimizer = optimizer] {
    optimizer.zero_grad();
    accelerator.backward(loss(model));
    optimizer.step();
  };
  for (int i = 0; i < 2; ++i) step();  // after the first step, buckets follow the gradients' order
  const BucketParameters buckets = model.ddp().buckets();
  const auto without_a_hook = [&, &model = model] {
    model.ddp().exchange_hook({}, buckets);
    for (int i = 0; i < 2; ++i) step();  // the first one sends what the hook has held back
  };
  const std::vector<HookSetting> all = settings_for({"low_rank"}, Registry::instance().catalog());
  ChoiceOptions options;
  options.bucket_bytes = kBucketBytes;
  HookChooser choosing(accelerator.world_ptr(), model.ddp(), all, options);
  settle(model.ddp(), choosing, step);
  const ChoiceReport chosen = choosing.report();

  // Predicts the settings that a run does not time, for lack of time or because they can't win. With named
  // hooks, steps are so long that the run had time for all.
  ChoiceReport predictions = chosen;
  if (hooks.empty()) {
    without_a_hook();
    options.predict_all = true;
    HookChooser predicting(accelerator.world_ptr(), model.ddp(), all, options);
    settle(model.ddp(), predicting, step);
    predictions = predicting.report();
  }
  Seconds predicted;
  for (const ChoiceReport& report : {predictions, chosen})
    for (const ChoiceReport::Setting& each : report.settings)
      if (each.predicted > 0) predicted[each.name] = each.predicted;

  const std::vector<BucketParameters> layouts = layouts_of(buckets, options.bucket_bytes);
  World& world = accelerator.world();
  const auto seconds_with = [&, &model = model](const Candidate& candidate) {
    use_setting(world, model.ddp(), candidate.setting, layouts[candidate.layout]);
    return seconds_of_steps(world, model.ddp(), step);
  };
  std::vector<Candidate> sweep;
  const SettingList settings(all, has_scopes(world), options.bucket_bytes);
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::size_t layout = settings.size_of(i);
    const std::string& hook = settings[i - layout].name;
    const bool is_named = hooks.empty() || std::count(hooks.begin(), hooks.end(), hook) > 0;
    if (!layouts[layout].empty() &&
        (is_named || settings.hook_of(i) == 0 || settings[i].name == chosen.chosen))
      sweep.push_back({settings[i], layout});
  }
  std::map<std::string, std::vector<double>> times;
  const auto measure = [&](const Candidate& candidate) {
    times[candidate.setting.name].push_back(seconds_with(candidate));
  };
  for (const Candidate& each : sweep) measure(each);
  // The fastest of many was partly lucky: measure it again, in turns with the next fastest ones, the chosen
  // one and no hook.
  std::vector<double> sorted;
  for (const auto& [name, first] : times) sorted.push_back(first[0]);
  std::sort(sorted.begin(), sorted.end());
  const double slowest_fast = sorted[std::min(kFastest, sorted.size()) - 1];
  std::vector<const Candidate*> again;
  for (const Candidate& each : sweep) {
    const double first = times[each.setting.name][0];
    if (first <= slowest_fast || each.setting.name == chosen.chosen ||
        (&each == &sweep[0] && first < kFarBehind * sorted[0]))
      again.push_back(&each);
  }
  for (int round = 0; round < kRounds; ++round)
    for (const Candidate* each : again) measure(*each);
  Seconds measured;
  for (auto& [name, all_of_it] : times) measured[name] = median(all_of_it);
  if (accelerator.is_main_process()) print(chosen, *predictions.measured, predicted, measured);
}

int run_model(const std::string& name, const std::vector<std::string>& hooks) {
  auto accelerator = Accelerator::from_env();
  if (name == "perceptron") {
    torch::nn::Sequential net(torch::nn::Linear(1024, 2048), torch::nn::ReLU(), torch::nn::Linear(2048, 2048),
                              torch::nn::ReLU(), torch::nn::Linear(2048, 10));
    const at::Tensor inputs = at::randn({kBatch, 1024}), targets = at::randn({kBatch, 10});
    run(accelerator, net, hooks, [&](auto& model) { return at::mse_loss(model.forward(inputs), targets); });
  } else if (name == "charlm") {
    charlm::NetSize size;
    size.vocabulary = 64;
    const at::Tensor tokens = at::randint(size.vocabulary, {8, size.context}, at::kLong);
    run(accelerator, charlm::Net(size), hooks, [&](auto& model) {
      return torch::nn::functional::cross_entropy(model.forward(tokens).flatten(0, 1), tokens.flatten());
    });
  } else if (name == "conv") {
    const at::Tensor images = at::randn({kBatch, 1, 8, 8}), digits = at::randint(10, {kBatch}, at::kLong);
    run(accelerator, digits::Net(), hooks,
        [&](auto& model) { return at::nll_loss(model.forward(images), digits); });
  } else {
    std::fprintf(stderr, "there is no model '%s'\n", name.c_str());
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace hookline

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: choice_rank MODEL [HOOK...]\n", stderr);
    return 2;
  }
  return hookline::run_model(argv[1], {argv + 2, argv + argc});
}
