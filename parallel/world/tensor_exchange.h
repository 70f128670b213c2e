// Tensors of the program that the ranks exchange: gather and reduce.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "parallel/world/process_group.h"

namespace hookline {

/// Collective calls: see Accelerator::gather and Accelerator::reduce. Whether the ranks' tensors match, and whether the backend can
/// carry them, is settled before a collective of them starts, since one that fails ends the World.
at::Tensor gather_tensor(World& world, const at::Tensor& tensor);
at::Tensor reduce_tensor(World& world, const at::Tensor& tensor, std::string_view reduction);

}  // namespace hookline
