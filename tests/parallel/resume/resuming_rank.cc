// A rank that trains with dropout and prints a checksum of its final bits, for tests that stop and resume it.
//
//     resuming_rank [WIDTH]     WIDTH of the hidden layer, which determines how long a save takes
//
// KILL_AT=STEP in the environment: in the first attempt, rank 1 dies after that step. SLOW_MS=N: each forward
// takes N ms longer.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/checksum.h"
#include "parallel/hookline.h"

namespace {

struct Waves : torch::data::datasets::Dataset<Waves> {
  torch::data::Example<> get(std::size_t index) override {
    const auto i = static_cast<float>(index);
    return {torch::sin(torch::arange(16).to(torch::kFloat) * (i + 1)), torch::cos(torch::arange(4) + i)};
  }
  torch::optional<std::size_t> size() const override { return 24; }
};

std::string digest_of(const at::Tensor& tensor) {
  const at::Tensor whole = tensor.detach().contiguous();
  return hookline::checksum_of(whole.const_data_ptr(), whole.nbytes());
}

void end_here_if_asked(const hookline::Accelerator& accelerator) {
  const char* const step = std::getenv("KILL_AT");
  const char* const restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  const bool first_attempt = !restarts || std::string(restarts) == "0";
  if (step && first_attempt && accelerator.rank() == 1 && accelerator.steps_done() == std::atoll(step))
    std::raise(SIGKILL);
}

void be_slow_if_asked() {
  static const char* const milliseconds = std::getenv("SLOW_MS");
  if (milliseconds) std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(milliseconds)));
}

}  // namespace

int main(int argc, char** argv) {
  auto accelerator = hookline::Accelerator::from_env();
  // A different random stream on each rank, so that each must get its own back.
  accelerator.set_seed(7 + static_cast<std::uint64_t>(accelerator.rank()));
  const std::int64_t width = argc > 1 ? std::atoll(argv[1]) : 64;
  torch::nn::Sequential net(torch::nn::Linear(16, width), torch::nn::Dropout(0.5),
                            torch::nn::Linear(width, 4));
  const double rate_at_first = 3.2 / static_cast<double>(width);  // wider layers have larger total gradients
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(rate_at_first).momentum(0.9));
  torch::optim::StepLR scheduler(sgd, 5, 0.9);
  double best = 1e9;
  auto [model, optimizer, loader] =
      accelerator.prepare(net.ptr(), sgd, hookline::data_loader(Waves(), {.batch_size = 2}));
  accelerator.register_for_checkpointing("schedule", scheduler);
  accelerator.register_for_checkpointing("best", best);
  while (!accelerator.should_stop()) {
    for (auto& batch : loader) {
      be_slow_if_asked();
      const at::Tensor loss = (model->forward(batch.data) - batch.target).pow(2).mean();
      accelerator.backward(loss);
      optimizer.step();
      optimizer.zero_grad();
      scheduler.step();
      best = std::min(best, loss.item<double>());
      end_here_if_asked(accelerator);
      if (accelerator.should_stop()) break;
    }
  }
  accelerator.end_training();
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : net->parameters()) all.push_back(parameter.flatten());
  const double rate = sgd.param_groups()[0].options().get_lr();
  std::printf("ended at step %lld: parameters %s, next random %s, best %.17g, rate %.17g\n",
              static_cast<long long>(accelerator.steps_done()), digest_of(torch::cat(all)).c_str(),
              digest_of(torch::rand({4})).c_str(), best, rate);
}
