// PowerSGD's arithmetic on a GPU, in plain CUDA: nvcc does not see libtorch's headers.
//
// Each function is for all matrices of a bucket, by one launch for every 64 of them. What they have to be told of each travels
// with the launch, so that nothing of the caller's has to outlive the call but the memory that they work on.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "hooks/numerics/bucket_parts.h"

namespace hookline::cuda {

enum class Real { float64, float32, float16, bfloat16 };

/// Makes the vectors of each factor in `buffer` orthonormal, in place, as orthogonalize of hooks/numerics/low_rank.h does.
/// `basis` is room for as many doubles as the factors have elements. With `redraw_seeds`, one for each factor, a vector that
/// depends on earlier ones is drawn anew instead of becoming zero; without, they are empty.
cudaError_t orthogonalize(Real type, void* buffer, const Factors& factors, double epsilon,
                          const std::vector<std::uint64_t>& redraw_seeds, double* basis, cudaStream_t stream);

/// sum = (sum - P·Qᵀ) + bucket, with the product, the difference and the sum rounded to the type. `p` and `q` may be null
/// (nothing is subtracted), and so may `bucket` (nothing is added). Beyond its `bucket_numel` elements a bucket is zero.
cudaError_t accumulate(Real type, const Matrices& matrices, void* sum, const void* p, const void* q,
                       const void* bucket, std::int64_t bucket_numel, cudaStream_t stream);

/// bucket = P·Qᵀ, as far as the bucket goes.
cudaError_t reconstruct(Real type, const Matrices& matrices, const void* p, const void* q, void* bucket,
                        std::int64_t bucket_numel, cudaStream_t stream);

}  // namespace hookline::cuda
