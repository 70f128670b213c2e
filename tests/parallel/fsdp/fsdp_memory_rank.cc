// One rank of a sharded perceptron with 21 million parameters, four fifths of them in one layer. Prints the
// memory of the process with the unsharded model, the peak in prepare, and the peak in the two steps after
// that:
//
//     peak KILOBYTES before prepare, KILOBYTES in it, KILOBYTES in a step
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "parallel/hookline.h"
#include "support/process.h"

namespace {

constexpr std::int64_t kInputs = 1024, kHidden = 4096, kOutputs = 10, kBatch = 32;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", hookline::FsdpUnit<torch::nn::Linear>(kInputs, kHidden));
    second = register_module("second", hookline::FsdpUnit<torch::nn::Linear>(kHidden, kHidden));
    last = register_module("last", hookline::FsdpUnit<torch::nn::Linear>(kHidden, kOutputs));
  }
  at::Tensor forward(const at::Tensor& x) { return last(second(first(x).relu()).relu()); }
  hookline::FsdpUnit<torch::nn::Linear> first{nullptr}, second{nullptr}, last{nullptr};
};
TORCH_MODULE(Net);

/// Resets the peak memory counter. Returns false if the kernel has no such file.
bool forget_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;  // resets VmHWM to the current usage: proc(5)
  return file.good();
}

}  // namespace

int main() {
  auto accelerator = hookline::Accelerator::from_env();
  Net net;
  torch::optim::SGD sgd(net->parameters(), 0.01);
  if (!forget_peak()) return 77;
  const std::int64_t before = hookline::testing::peak_memory_kb(::getpid());
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  const std::int64_t in_prepare = hookline::testing::peak_memory_kb(::getpid());
  if (!forget_peak()) return 77;
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    accelerator.backward(
        at::mse_loss(model->forward(at::randn({kBatch, kInputs})), at::randn({kBatch, kOutputs})));
    optimizer.step();
  }
  std::printf("peak %lld before prepare, %lld in it, %lld in a step\n", static_cast<long long>(before),
              static_cast<long long>(in_prepare),
              static_cast<long long>(hookline::testing::peak_memory_kb(::getpid())));
  return 0;
}
