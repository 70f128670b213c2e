// The norm of gradients, some of which are sharded.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "parallel/shards/sharded_parameters.h"
#include "parallel/world/world.h"

namespace hookline {

/// torch's clip_grad_norm_ over parameters of which those in `shards` are one rank's pieces, or are stepped
/// in pieces: scales the gradients so that the norm of all of them, on all ranks together, is `max_norm` at
/// most, and returns what it was. `norm_type` may be infinite. If a parameter is sharded, this is a
/// collective call, and throws Error for a norm_type that is not above 0. Source:
/// FullyShardedDataParallel.clip_grad_norm_ of torch 2.11.
double clip_gradient_norm(World& world, const ShardedParameters& shards,
                          const std::vector<at::Tensor>& parameters, double max_norm, double norm_type);

}  // namespace hookline
