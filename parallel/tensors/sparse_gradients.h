// Sparse gradients, which hookline does not average.
#pragma once

#include <torch/nn/module.h>

#include <string>

namespace hookline {

/// Throws Error, naming the parameter, if `module` holds an Embedding or EmbeddingBag with sparse = true that
/// is trained.
void refuse_sparse_gradients(const torch::nn::Module& module);

/// Throws the same if `gradient`, which may be undefined, is sparse: of the parameter `name`, as F::embedding
/// gives it.
void refuse_sparse_gradient(const at::Tensor& gradient, const std::string& name);

}  // namespace hookline
