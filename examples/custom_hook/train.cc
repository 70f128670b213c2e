// A program with a gradient hook of its own, which a TOML file names:
//
//     hookline launch --config examples/custom_hook/clip.toml build/bin/custom_hook
#include <ATen/ATen.h>
#include <torch/data/datasets/base.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <sstream>

#include "config/resolve.h"
#include "hooks/comm_hook.h"
#include "hooks/register.h"
#include "parallel/hookline.h"

namespace {

/// Clips this rank's gradients in each bucket to a norm, then averages: one bad batch can't carry all ranks away.
/// Bucket  1-D floating, numel n           Wire    n elements a rank into the collective
/// Result  the bucket's buffer, in place   State   none
/// Errors  HookError for a max_norm of 0   Parity  none
/// Source  none
class ClipAllreduce : public hookline::CommHook {
 public:
  ClipAllreduce(hookline::HookContext context, const hookline::OptionMap& options)
      : CommHook(std::move(context)), max_norm_(std::get<double>(options.at("max_norm"))) {
    if (max_norm_ == 0) throw hookline::HookError("clip_allreduce: max_norm is 0, which leaves no gradient");
  }

  hookline::FuturePtr run(hookline::GradBucket bucket) override {
    at::Tensor gradients = bucket.buffer();
    const double norm = gradients.to(at::kDouble).norm().item<double>();
    gradients.mul_(std::min(1.0, max_norm_ / norm) / world_size());
    return comm().all_reduce(gradients);
  }

  std::string describe() const override {
    std::ostringstream text;
    text << "clip_allreduce(max_norm=" << max_norm_ << ")";
    return text.str();
  }

 private:
  double max_norm_;
};

HOOKLINE_REGISTER_HOOK(ClipAllreduce, R"json({
  "name": "clip_allreduce",
  "summary": "Clips each rank's gradients to a norm, bucket by bucket, then averages them.",
  "options": [{"name": "max_norm", "type": "number", "default": 1.0, "at_least": 0,
               "help": "Largest norm of a bucket's gradients on one rank."}]
})json");

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

int main() {
  try {
    train();
  } catch (const std::exception& error) {
    std::cerr << "custom_hook: error: " << error.what() << '\n';
    const bool bad_input = dynamic_cast<const hookline::HookError*>(&error) ||
                           dynamic_cast<const hookline::ConfigError*>(&error);
    return bad_input ? 2 : 1;
  }
  return 0;
}
