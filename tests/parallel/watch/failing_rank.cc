// A rank that fails during training, or whose peers do, for failure_processes_test.cc:
//
//     failing_rank MODE RANK
//
// Each step averages a gradient of 40,000 elements. In step 3, rank RANK does what MODE says: "kill" and
// "stop" send it that signal, "exit" exits with code 0, "throw" throws between forward and backward; "kill in
// step" and "stop in step" send the signal inside the optimizer's step; "uncaught" throws an exception that
// nothing catches, and "segv" causes a segmentation fault. A rank whose step fails prints the error and how
// long it took, and exits with code 3; with "throw", all ranks join again instead, train a second model and
// exit with code 0. Each step is logged. With "pace", all ranks report step 3 and take half a minute for the
// rest.
#include <ATen/ops/full.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "parallel/hookline.h"

namespace {

constexpr int kFailingStep = 3;

void fail(const std::string& mode) {
  if (mode == "kill") std::raise(SIGKILL);
  if (mode == "stop") std::raise(SIGSTOP);
  if (mode == "exit") std::exit(0);
  if (mode == "throw") throw std::runtime_error("no more memory");
  if (mode == "uncaught") throw 42;
  if (mode == "segv") {
    std::this_thread::sleep_for(std::chrono::seconds(1));  // recently logged lines may be lost
    std::raise(SIGSEGV);
  }
}

struct FailingSgd : torch::optim::SGD {
  using SGD::SGD;
  at::Tensor step(LossClosure closure = nullptr) override {
    if (const int sent = std::exchange(signal, 0)) std::raise(sent);
    return SGD::step(closure);
  }
  int signal = 0;
};

template <class Sgd>
void train(const std::string& mode, int failing_rank, int steps) {
  auto accelerator = hookline::Accelerator::from_env();
  torch::nn::Linear net(200, 200);
  Sgd sgd(net->parameters(), 0.01);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  auto last = std::chrono::steady_clock::now();
  try {
    for (int step = 0; step < steps; ++step) {
      last = std::chrono::steady_clock::now();
      const at::Tensor loss =
          model->forward(at::full({4, 200}, 0.1 * (1 + accelerator.rank()))).pow(2).mean();
      if (step == kFailingStep && accelerator.rank() == failing_rank) {
        fail(mode);
        if constexpr (std::is_same_v<Sgd, FailingSgd>)
          sgd.signal = mode == "kill in step" ? SIGKILL : SIGSTOP;
      }
      if (mode == "pace" && step >= kFailingStep) {
        if (step == kFailingStep) std::puts("in step 3");
        std::fflush(stdout);
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
      }
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      accelerator.log({{"number", step}});
    }
  } catch (const hookline::RunFailed& failure) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - last;
    std::printf("failed after %.1f s: %s\n", seconds.count(), failure.what());
    std::fflush(stdout);
    throw;
  }
  accelerator.wait_for_everyone();
  std::printf("trained %d steps to %.6f\n", steps, net->weight.sum().item<double>());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: failing_rank MODE RANK\n");
    return 2;
  }
  const std::string mode = argv[1];
  const bool in_step = mode.ends_with(" in step");
  try {
    (in_step ? train<FailingSgd> : train<torch::optim::SGD>)(mode, std::atoi(argv[2]), 200);
  } catch (const std::exception& error) {
    if (mode != "throw") {
      std::fprintf(stderr, "%s\n", error.what());
      return 3;
    }
    train<torch::optim::SGD>("none", -1, 10);
  }
  return 0;
}
