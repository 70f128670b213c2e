// Which parameters of this process are pieces of a sharded model's.
#pragma once

#include <torch/nn/module.h>

namespace hookline {

/// Throws Error if one of `module`'s parameters was cut, in any run of this process: it would be cut twice.
void expect_none_is_cut(const torch::nn::Module& module);

/// Call it before the first of `module`'s parameters is cut. Parameters that are gone are forgotten. Thread-safe, as the other.
void remember_as_cut(const torch::nn::Module& module);

}  // namespace hookline
