// A small convolutional network for images of 1×8×8: 284,000 parameters, nearly all of them in matrices that
// PowerSGD compresses.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

namespace digits {

class NetImpl : public torch::nn::Module {
 public:
  NetImpl() {
    register_module("conv1", conv1_);
    register_module("conv2", conv2_);
    register_module("hidden", hidden_);
    register_module("output", output_);
  }

  /// Log probabilities of the ten digits.
  at::Tensor forward(at::Tensor images) {
    at::Tensor features = at::relu(conv2_->forward(at::relu(conv1_->forward(images))));
    features = at::max_pool2d(features, 2).flatten(1);
    return at::log_softmax(output_->forward(at::relu(hidden_->forward(features))), 1);
  }

 private:
  torch::nn::Conv2d conv1_{torch::nn::Conv2dOptions(1, 32, 3).padding(1)};
  torch::nn::Conv2d conv2_{torch::nn::Conv2dOptions(32, 64, 3).padding(1)};
  torch::nn::Linear hidden_{64 * 4 * 4, 256};
  torch::nn::Linear output_{256, 10};
};
TORCH_MODULE(Net);

}  // namespace digits
