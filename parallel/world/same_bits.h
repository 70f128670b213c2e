// Do all ranks hold the same, to the bit?
#pragma once

#include <vector>

#include "parallel/world/world.h"

namespace hookline {

/// For each rank, whether its `tensors` have the bits of rank 0's (hashes of them are compared). A collective
/// call.
std::vector<bool> same_bits_as_rank_zero(World& world, const std::vector<at::Tensor>& tensors);

/// True if all are. A collective call.
bool same_bits_on_all_ranks(World& world, const at::Tensor& tensor);

}  // namespace hookline
