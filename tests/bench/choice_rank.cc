// One rank of the benchmark of comm_hook = "auto": lets a hook be chosen, predicts what a step takes with each, and then measures steps with
// each of them.
//
//     choice_rank MODEL [HOOK...]    MODEL: perceptron, charlm or conv; HOOK: measured alone, and in the config's buckets only
//
// Else all hooks are measured, and in every size of buckets no hook, what is chosen, and some that often are.
//
// Rank 0 prints one JSON object: {"chosen", "measuring_seconds", "no_hook", "measured_step", "settings": [{"name", "predicted",
// "measured"}]}, in seconds of a step.
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
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "examples/charlm/net.h"
#include "examples/digits/net.h"
#include "hooks/registry.h"
#include "parallel/choice/hook_chooser.h"
#include "parallel/hookline.h"

namespace hookline {
namespace {

constexpr std::int64_t kBatch = 32;
constexpr double kSeconds = 2;  // for which each setting is measured, as long as steps are short
const std::vector<std::int64_t> kBucketBytes = {25 << 20, 1 << 20, 256 << 10};
const std::vector<std::string> kOftenChosen = {"fp16", "power_sgd(rank=1)", "power_sgd(rank=1) in fp16"};

/// Steps of `model` until `chooser` has measured its choice.
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
  for (int i = 0; i < 2; ++i) step();  // behind the first, buckets take the order of gradients
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

  // What has no time to be timed in a run, or can't gain.
  without_a_hook();
  options.predict_all = true;
  if (!hooks.empty()) options.bucket_bytes.clear();
  HookChooser predicting(accelerator.world_ptr(), model.ddp(), all, options);
  settle(model.ddp(), predicting, step);
  const ChoiceReport predictions = predicting.report();
  Seconds predicted;
  for (const ChoiceReport& report : {predictions, chosen})
    for (const ChoiceReport::Setting& each : report.settings)
      if (each.predicted > 0) predicted[each.name] = each.predicted;

  std::vector<HookSetting> in_each_size, in_one_size;
  for (const HookSetting& each : all) {
    const bool is_often = std::count(kOftenChosen.begin(), kOftenChosen.end(), each.name) > 0;
    const bool is_chosen = chosen.chosen == each.name || chosen.chosen.starts_with(each.name + ", ");
    if (hooks.empty() && (is_often || is_chosen))
      in_each_size.push_back(each);
    else if (hooks.empty() || std::count(hooks.begin(), hooks.end(), each.name) > 0)
      in_one_size.push_back(each);
  }
  ChoiceOptions trying;
  trying.try_each = true;
  trying.steps.first_window = std::clamp(static_cast<int>(kSeconds / chosen.settings[0].measured), 5, 200);
  Seconds measured;
  for (const bool each_size : {false, true}) {
    const std::vector<HookSetting>& settings = each_size ? in_each_size : in_one_size;
    if (settings.empty()) continue;
    without_a_hook();
    if (each_size) trying.bucket_bytes = kBucketBytes;
    HookChooser trier(accelerator.world_ptr(), model.ddp(), settings, trying);
    settle(model.ddp(), trier, step);
    for (const ChoiceReport::Setting& each : trier.report().settings)
      if (each.measured > 0) measured[each.name] = each.measured;
  }
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
