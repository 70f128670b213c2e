// Do all ranks hold the same? Asked before a collective of unequal tensors could hang or fail without a word.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "parallel/world/world.h"

namespace hookline {

/// One line a parameter or buffer: "parameter 'fc.weight' is Float [64, 32]…".
struct SignatureLine {
  std::string name;   // "parameter 'fc.weight'"
  std::string shape;  // "Float [64, 32]", with strides if not contiguous, "without gradient" if it takes none
};
using Signature = std::vector<SignatureLine>;

/// The line of one tensor.
SignatureLine signature_line(std::string name, const at::Tensor& tensor);

Signature model_signature(const torch::nn::Module& module);

/// Throws Error on every rank, with the same text, if a rank's signature differs from rank 0's: it names the
/// rank and the first parameter or buffer that differs. A collective call.
void agree_on_signature(World& world, const Signature& signature);

}  // namespace hookline
