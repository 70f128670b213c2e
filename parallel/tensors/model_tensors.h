// A model's tensors by name, and whether those of a checkpoint fit them.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <string>

#include "parallel/tensors/safetensors.h"

namespace hookline {

/// Before the name of a parameter: its gradient.
inline constexpr const char* kGradientPrefix = "gradient.";

/// The module's parameters and buffers, except undefined ones.
NamedTensors tensors_of_model(torch::nn::Module& module);

/// Throws Error if `there`, which the checkpoint holds, has other names, dtypes or sizes than `here`.
/// `sizes_of` returns the sizes that a tensor of `here` has when it is whole.
void expect_same_model(const NamedTensors& here,
                       const std::function<at::IntArrayRef(const at::Tensor&)>& sizes_of,
                       const NamedTensors& there, const std::string& checkpoint);

}  // namespace hookline
