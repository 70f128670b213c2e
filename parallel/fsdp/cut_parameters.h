// Remembers which parameters of this process are sharded.
#pragma once

#include <torch/nn/module.h>

namespace hookline {

/// Throws Error if a parameter of `module` is sharded already, in any World of this process. Forgets
/// parameters that no longer exist. Thread-safe.
void expect_none_is_cut(const torch::nn::Module& module);

/// Call it before sharding the parameters of `module`. Thread-safe.
void remember_as_cut(const torch::nn::Module& module);

}  // namespace hookline
