// A model whose gradients a test chooses, to see what a hook makes of them.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/distributed_module.h"
#include "parallel/process_group.h"

namespace hookline::testing {

using Tensors = std::vector<at::Tensor>;

/// Parameters of the given shapes. The gradient of forward's result is what forward was given.
struct GivenGradients : torch::nn::Module {
  explicit GivenGradients(const std::vector<std::vector<std::int64_t>>& shapes,
                          at::ScalarType dtype = at::kFloat) {
    std::size_t count = 0;
    for (const auto& shape : shapes) {
      register_parameter(std::to_string(count++), torch::zeros(shape, dtype));
    }
  }
  at::Tensor forward(const Tensors& gradients) {
    at::Tensor sum = torch::zeros({}, gradients[0].options());
    const Tensors own = parameters();
    for (std::size_t i = 0; i < own.size(); ++i) sum = sum + (own[i] * gradients[i]).sum();
    return sum;
  }
};
using GivenGradientsModel = DistributedModule<GivenGradients>;

/// One backward pass with `gradients`; what the hook made of them.
inline Tensors communicate(GivenGradientsModel& model, const Tensors& gradients) {
  model.zero_grad();
  model.forward(gradients).backward();
  Tensors result;
  for (const at::Tensor& parameter : model.parameters()) result.push_back(parameter.grad().clone());
  return result;
}

inline at::Tensor mean_of_ranks(World& world, const at::Tensor& tensor) {
  at::Tensor mean = torch::zeros_like(tensor);
  for (const at::Tensor& one : world.all_gather(tensor)) mean += one / world.size();
  return mean;
}

inline bool same_on_all_ranks(World& world, const at::Tensor& tensor) {
  bool same = true;
  for (const at::Tensor& other : world.all_gather(tensor.contiguous()))
    same = same && torch::equal(other, tensor);
  return same;
}

}  // namespace hookline::testing
