// A model whose gradients the test chooses, to see what a hook does to them.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/ddp/given_gradients.h"
#include "parallel/distributed_module.h"
#include "parallel/world/world.h"

namespace hookline::testing {

using Tensors = std::vector<at::Tensor>;

/// A module with parameters of the given shapes.
struct GivenGradients : hookline::GivenGradients {
  explicit GivenGradients(const std::vector<std::vector<std::int64_t>>& shapes,
                          at::ScalarType dtype = at::kFloat)
      : hookline::GivenGradients(like(shapes, dtype)) {}

 private:
  static std::vector<std::pair<std::string, at::Tensor>> like(
      const std::vector<std::vector<std::int64_t>>& shapes, at::ScalarType dtype) {
    std::vector<std::pair<std::string, at::Tensor>> tensors;
    for (const auto& shape : shapes)
      tensors.emplace_back(std::to_string(tensors.size()), torch::empty(shape, dtype));
    return tensors;
  }
};
using GivenGradientsModel = DistributedModule<GivenGradients>;

/// Runs one backward pass with `gradients` and returns the hook's result.
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
