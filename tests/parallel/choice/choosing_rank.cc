// One rank of a model that chooses its hook:  choosing_rank SECONDS [HOOK...]
//
// Trains a network with 6 MB of gradients for that long, by rank 0's clock, or until rank 0 gets SIGUSR1.
// Rank 0 prints "chose NAME" whenever the choice changes, and finally "exchanges N". Ranks whose parameters
// differ at the end exit with 4.
#include <ATen/ops/mse_loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "parallel/choice/hook_chooser.h"
#include "parallel/hookline.h"
#include "parallel/world/same_bits.h"
#include "tests/support/random_rows.h"

namespace {
volatile std::sig_atomic_t told_to_end = 0;
}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGUSR1, [](int) { told_to_end = 1; });
  using Clock = std::chrono::steady_clock;
  const std::chrono::duration<double> duration(argc > 1 ? std::atof(argv[1]) : 10);
  std::vector<hookline::HookSetting> settings;
  for (int i = 2; i < argc; ++i) settings.push_back({argv[i], argv[i]});
  auto accelerator = hookline::Accelerator::from_env();
  torch::nn::Sequential net;
  for (int layer = 0; layer < 6; ++layer) {
    net->push_back(torch::nn::Linear(512, 512));
    net->push_back(torch::nn::Tanh());
  }
  torch::optim::SGD sgd(net->parameters(), 0.01);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  hookline::ChoiceOptions options;
  options.steps.window = 10;
  hookline::HookChooser chooser(accelerator.world_ptr(), model.ddp(), std::move(settings), options);
  model.ddp().after_each_step([&] { chooser.after_step(); });

  std::string chosen;
  const auto end = Clock::now() + duration;
  for (int step = 0;; ++step) {
    const at::Tensor go_on =
        at::full({1}, static_cast<std::int64_t>(told_to_end == 0 && Clock::now() < end), at::kLong);
    accelerator.world_ptr()->broadcast({go_on});
    if (go_on.item<std::int64_t>() == 0) break;
    optimizer.zero_grad();
    const at::Tensor x = hookline::testing::random_rows(4, 512, 1000 * step + accelerator.rank());
    accelerator.backward(at::mse_loss(model->forward(x), x.flip(1)));
    optimizer.step();
    const std::string now = chooser.chosen() ? *chooser.chosen() : "";
    if (now != chosen && !now.empty() && accelerator.is_main_process()) {
      std::printf("chose %s\n", now.c_str());
      std::fflush(stdout);
      chosen = now;
    }
  }
  if (accelerator.is_main_process()) std::printf("exchanges %d\n", chooser.exchanges());
  bool same = true;
  for (const at::Tensor& parameter : net->parameters())
    same =
        same && hookline::same_bits_on_all_ranks(*accelerator.world_ptr(), parameter.detach().reshape({-1}));
  return same ? 0 : 4;
}
