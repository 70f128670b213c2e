// Sums of the ranks' values in the order of ranks.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>

#include "hooks/numerics/kernels.h"

namespace hookline {

/// out[i] = parts[0][i] + parts[1][i] + …, in this order. float16 and bfloat16 are summed in float32 and
/// rounded to the nearest even once; integers wrap around. `out` may be one of the parts.
using RankSum = void (*)(const void* const* parts, int count, void* out, std::size_t elements);

/// Null for a type that is not summed: bool, int16, uint16 to uint64, complex numbers, quantized ones,
/// float8.
RankSum rank_sum_of(c10::ScalarType type, Kernels kernels = Kernels::best);

}  // namespace hookline
