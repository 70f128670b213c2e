// One rank of the step benchmark: trains an MLP on random data. Run by hookline launch:
//
//     hookline launch --processes-per-node 2 step_rank STEPS HIDDEN [adamw]
//
// HIDDEN 2048 makes 6.3 million parameters, 4096 makes 21 million. The optimizer is SGD, or AdamW.
// Rank 0 prints the median time of a step in ms, without the first steps, the peak memory of the process in
// MB (not the GPU's), and the bytes that it hands to collectives in a step. A GPU's queue runs behind the
// program, so there each time is the mean of ten steps, with a wait for the GPU after the last one.
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/resource.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "parallel/hookline.h"

namespace {

constexpr std::int64_t kInputs = 1024, kOutputs = 10, kBatch = 32;
constexpr int kWarmUpSteps = 5;  // on a GPU: ten times as many

struct NetImpl : torch::nn::Module {
  explicit NetImpl(std::int64_t hidden) {
    first = register_module("first", hookline::FsdpUnit<torch::nn::Linear>(kInputs, hidden));
    second = register_module("second", hookline::FsdpUnit<torch::nn::Linear>(hidden, hidden));
    last = register_module("last", hookline::FsdpUnit<torch::nn::Linear>(hidden, kOutputs));
  }
  at::Tensor forward(const at::Tensor& x) { return last(second(first(x).relu()).relu()); }
  hookline::FsdpUnit<torch::nn::Linear> first{nullptr}, second{nullptr}, last{nullptr};
};
TORCH_MODULE(Net);

void wait_for(c10::Device device) {
  if (device.is_cuda()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

/// Milliseconds of each step, or, on a GPU, the mean of each ten steps.
template <class Optimizer>
std::vector<double> train(hookline::Accelerator& accelerator, Net net, Optimizer optimizer_of_net,
                          int steps) {
  auto [model, optimizer] = accelerator.prepare(net, optimizer_of_net);
  const c10::Device device = accelerator.device();
  const at::Tensor inputs = at::randn({kBatch, kInputs}).to(device),
                   targets = at::randn({kBatch, kOutputs}).to(device);
  const int steps_of_a_time = device.is_cuda() ? 10 : 1;
  std::vector<double> times;
  for (int time = -kWarmUpSteps; time < steps / steps_of_a_time; ++time) {
    const auto start = std::chrono::steady_clock::now();
    for (int step = 0; step < steps_of_a_time; ++step) {
      optimizer.zero_grad();
      accelerator.backward(at::mse_loss(model->forward(inputs), targets));
      optimizer.step();
    }
    wait_for(device);
    const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
    if (time >= 0) times.push_back(passed.count() / steps_of_a_time);
  }
  if (accelerator.is_main_process())
    std::printf("%lld bytes, ",
                static_cast<long long>(model.strategy().communication_stats().bytes_per_step));
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_adamw = argc == 4 && std::string_view(argv[3]) == "adamw";
  if (argc != 3 && !is_adamw) {
    std::fputs("usage: step_rank STEPS HIDDEN [adamw]\n", stderr);
    return 2;
  }
  const int steps = std::atoi(argv[1]);
  auto accelerator = hookline::Accelerator::from_env();
  Net net(std::atoll(argv[2]));
  std::vector<double> times =
      is_adamw ? train(accelerator, net, torch::optim::AdamW(net->parameters()), steps)
               : train(accelerator, net, torch::optim::SGD(net->parameters(), 0.01), steps);
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  if (accelerator.is_main_process())
    std::printf("median %.3f ms, peak %.1f MB\n", times[times.size() / 2],
                static_cast<double>(usage.ru_maxrss) / 1024);
  return 0;
}
