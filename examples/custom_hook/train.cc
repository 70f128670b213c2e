// A program with a custom gradient hook, which a TOML file names:
//
//     hookline launch --config examples/custom_hook/clip.toml build/bin/custom_hook
#include <ATen/ATen.h>
#include <torch/data/datasets/base.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cstdio>

#include "parallel/hookline.h"

namespace {

/// Points of the line y = 3x - 2. One in a hundred is a wild outlier.
class NoisyLine : public torch::data::datasets::Dataset<NoisyLine> {
 public:
  torch::data::Example<> get(std::size_t index) override {
    const float x = static_cast<float>(index) / 500 - 1;
    const float y = index % 100 == 99 ? 1000 : 3 * x - 2;
    return {at::full({1}, x), at::full({1}, y)};
  }
  std::optional<std::size_t> size() const override { return 1000; }
};

void train() {
  auto accelerator = hookline::Accelerator::from_env();
  torch::nn::Linear line(1, 1);
  torch::optim::SGD sgd(line->parameters(), 0.1);
  auto [model, optimizer, loader] =
      accelerator.prepare(line, sgd, hookline::data_loader(NoisyLine(), {.batch_size = 10}));
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (auto& batch : loader) {
      accelerator.backward(at::mse_loss(model->forward(batch.data), batch.target));
      optimizer.step();
      optimizer.zero_grad();
    }
  }
  char text[100];
  std::snprintf(text, sizeof text, "y = %.2f x %+.2f, where y = 3 x - 2 was sought",
                line->weight.item<double>(), line->bias.item<double>());
  accelerator.print(text);
  accelerator.print(accelerator.wire_summary());
}

}  // namespace

// At an error the program prints its message and exits, with 2 for bad input.
int main() { train(); }
