// The cast to half precision that compressing hooks send.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "hooks/numerics/kernels.h"

namespace hookline {

/// to = (from in to's dtype) / divisor, rounded after the cast and after the division, as
/// from.to(dtype).div_(divisor) rounds; one pass over memory. from [n], to [n] in float16 or bfloat16;
/// contiguous.
void cast_and_divide(const at::Tensor& from, const at::Tensor& to, std::int64_t divisor,
                     Kernels kernels = Kernels::best);

}  // namespace hookline
