// Parameter values that are the same in every process and every run, but different for each parameter.
#pragma once

#include <torch/torch.h>

namespace hookline::testing {

/// Sets all parameters of `module` to waves between -height and height, each shifted relative to the previous
/// parameter's.
inline void set_to_waves(torch::nn::Module& module, double height = 1) {
  const torch::NoGradGuard no_grad;
  std::int64_t shift = 0;
  for (auto& parameter : module.parameters())
    parameter.copy_(torch::sin(torch::arange(parameter.numel()) * 0.7 + ++shift).view(parameter.sizes()) *
                    height);
}

}  // namespace hookline::testing
