// Sparse gradients, which hookline does not average.
#pragma once

#include <torch/nn/module.h>

namespace hookline {

/// Throws Error, naming the parameter, if `module` holds an Embedding or EmbeddingBag with sparse = true that is trained.
void refuse_sparse_gradients(const torch::nn::Module& module);

}  // namespace hookline
