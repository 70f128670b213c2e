// One rank of the benchmark of comm_hook = "auto": lets a hook be chosen, predicts what a step takes with each, and then measures steps with
// each of them.
//
//     choice_rank MODEL [HOOK...]            MODEL: perceptron, charlm or conv; HOOK: measured, else all
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

/// Steps of `model` until `chooser` has measured its choice.
void settle(Ddp& ddp, HookChooser& chooser, const std::function<void()>& step) {
  ddp.after_each_step([&] { chooser.after_step(); });
  while (!chooser.is_settled()) step();
  ddp.after_each_step({});
}

void print(const ChoiceReport& predicted, const ChoiceReport& measured) {
  nlohmann::ordered_json json = {
      {"chosen", predicted.chosen},
      {"measuring_seconds", predicted.measuring_seconds},
      {"measured_step", nlohmann::ordered_json::parse(to_json(*predicted.measured))},
      {"settings", nlohmann::ordered_json::array()}};
  for (const ChoiceReport::Setting& each : predicted.settings) {
    const auto tried = std::find_if(measured.settings.begin(), measured.settings.end(),
                                    [&](const auto& other) { return other.name == each.name; });
    nlohmann::ordered_json row = {{"name", each.name}, {"predicted", each.predicted}, {"measured", nullptr}};
    if (tried != measured.settings.end()) row["measured"] = tried->measured;
    json["settings"].push_back(std::move(row));
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
  const std::vector<HookSetting> all = settings_for({"low_rank"}, Registry::instance().catalog());
  HookChooser choosing(accelerator.world_ptr(), model.ddp(), all);
  settle(model.ddp(), choosing, step);
  ChoiceReport chosen = choosing.report();
  const auto without_a_hook = [&, &model = model] {
    model.ddp().exchange_hook({});
    for (int i = 0; i < 2; ++i) step();  // the first one sends what the hook has held back
  };
  const bool has_all = chosen.measured && chosen.measured->settings.size() == all.size();
  if (!has_all) {  // what has no time to be timed in a run, or can't gain
    without_a_hook();
    ChoiceOptions options;
    options.predict_all = true;
    HookChooser predicting(accelerator.world_ptr(), model.ddp(), all, options);
    settle(model.ddp(), predicting, step);
    const ChoiceReport predicted = predicting.report();
    chosen.measured = predicted.measured;
    for (std::size_t i = 0; i < chosen.settings.size(); ++i)
      chosen.settings[i].predicted = predicted.settings[i].predicted;
  }

  std::vector<HookSetting> some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some), [&](const HookSetting& each) {
    return hooks.empty() || std::count(hooks.begin(), hooks.end(), each.name) > 0;
  });
  without_a_hook();
  ChoiceOptions options;
  options.try_each = true;
  options.steps.first_window = std::clamp(static_cast<int>(kSeconds / chosen.settings[0].measured), 10, 200);
  HookChooser trying(accelerator.world_ptr(), model.ddp(), some, options);
  settle(model.ddp(), trying, step);
  if (accelerator.is_main_process()) print(chosen, trying.report());
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
