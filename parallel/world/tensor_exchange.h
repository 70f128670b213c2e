// Tensors of the program that the ranks exchange: gather and reduce.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "parallel/world/world.h"

namespace hookline {

/// See Accelerator::gather and Accelerator::reduce; both are collective calls. They check that the ranks'
/// tensors match and that the backend supports them before a collective starts, since a failed collective
/// ends the World.
at::Tensor gather_tensor(World& world, const at::Tensor& tensor);
at::Tensor reduce_tensor(World& world, const at::Tensor& tensor, std::string_view reduction);

}  // namespace hookline
