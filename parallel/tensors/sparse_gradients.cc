#include "parallel/tensors/sparse_gradients.h"

#include <torch/nn/modules/embedding.h>

#include <string>

#include "base/error.h"

namespace hookline {
namespace {

template <class Embedding>
bool has_sparse_gradient(const torch::nn::Module& module) {
  const auto* embedding = module.as<Embedding>();
  return embedding && embedding->options.sparse() && embedding->weight.requires_grad();
}

[[noreturn]] void refuse(const std::string& parameter) {
  throw Error(
      "the gradient of parameter '" + parameter +
      "' is sparse, and hookline averages dense gradients only: make the embedding with sparse(false)");
}

}  // namespace

void refuse_sparse_gradients(const torch::nn::Module& module) {
  for (const auto& part : module.named_modules()) {
    if (!has_sparse_gradient<torch::nn::EmbeddingImpl>(*part.value()) &&
        !has_sparse_gradient<torch::nn::EmbeddingBagImpl>(*part.value()))
      continue;
    refuse((part.key().empty() ? "" : part.key() + ".") + "weight");
  }
}

void refuse_sparse_gradient(const at::Tensor& gradient, const std::string& name) {
  if (gradient.defined() && gradient.layout() != at::kStrided) refuse(name);
}

}  // namespace hookline
