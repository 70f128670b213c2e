// One rank of the stress test: trains a network with many buckets and the config's hook, with random delays.
//
//     stress_rank STEPS
//
// Compares the ranks' parameters every 50 steps and exits with code 4 at the first difference.
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/options/activation.h>
#include <torch/optim/sgd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <thread>

#include "parallel/hookline.h"

namespace {

constexpr std::int64_t kWidth = 512, kLayers = 6, kBatch = 4;
constexpr int kStepsBetweenChecks = 50;

std::int64_t hash_of(const std::vector<at::Tensor>& tensors) {
  std::size_t hash = 0;
  for (const at::Tensor& tensor : tensors) {
    const std::string_view bytes(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    hash = hash * 31 + std::hash<std::string_view>()(bytes);
  }
  return static_cast<std::int64_t>(hash);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 100;
  auto accelerator = hookline::Accelerator::from_env();
  torch::nn::Sequential net;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    net->push_back(torch::nn::Linear(kWidth, kWidth));
    net->push_back(torch::nn::Tanh());
  }
  torch::optim::SGD sgd(net->parameters(), 0.01);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  torch::manual_seed(static_cast<std::uint64_t>(100 + accelerator.rank()));
  std::mt19937 random(static_cast<unsigned>(accelerator.rank()));
  for (int step = 1; step <= steps; ++step) {
    if (random() % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 10));
    optimizer.zero_grad();
    const at::Tensor x = at::randn({kBatch, kWidth});
    accelerator.backward(at::mse_loss(model->forward(x), x.flip(1)));
    optimizer.step();
    if (step % kStepsBetweenChecks != 0 && step != steps) continue;
    const at::Tensor hashes = accelerator.gather(at::tensor(hash_of(net->parameters()), at::kLong));
    for (int rank = 1; rank < accelerator.world_size(); ++rank) {
      if (hashes[rank].item<std::int64_t>() == hashes[0].item<std::int64_t>()) continue;
      std::printf("step %d: rank %d differs from rank 0\n", step, rank);
      return 4;
    }
  }
  std::printf("%d steps, and all ranks are equal\n", steps);
  accelerator.print(accelerator.wire_summary());
  return 0;
}
