// A model whose gradients are given by a recording or a test, to run a hook on them.
#pragma once

#include <ATen/ops/zeros_like.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace hookline {

/// Parameters, zero, of the given names and of the shapes, dtypes and devices of the given tensors. The loss
/// is Σ ⟨parameter, gradient⟩, so the gradient of forward's result is what forward was given, in that order.
struct GivenGradients : torch::nn::Module {
  explicit GivenGradients(const std::vector<std::pair<std::string, at::Tensor>>& like)
      : torch::nn::Module("given gradients") {
    for (const auto& [name, tensor] : like) register_parameter(name, at::zeros_like(tensor));
  }
  at::Tensor forward(const std::vector<at::Tensor>& gradients) {
    at::Tensor sum;
    const std::vector<at::Tensor> own = parameters();
    for (std::size_t i = 0; i < own.size(); ++i) {
      const at::Tensor term = (own[i] * gradients[i]).sum();
      sum = sum.defined() ? sum + term : term;
    }
    return sum;
  }
};

}  // namespace hookline
