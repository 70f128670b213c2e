// PowerSGD's arithmetic on a GPU, in plain CUDA: nvcc does not see libtorch's headers.
//
// Each function handles all matrices of a bucket, with one launch for every 64 of them. Descriptions of the
// matrices travel with the launch, so only the memory that is worked on must outlive the call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "hooks/numerics/bucket_parts.h"

namespace hookline::cuda {

enum class Real { float64, float32, float16, bfloat16 };

/// Makes the vectors of each factor in `buffer` orthonormal, in place, like orthogonalize in
/// hooks/numerics/low_rank.h. `basis` is scratch space: as many doubles as the factors have elements.
/// `redraw_seeds` is empty, or has a seed for each factor: then a vector that depends on earlier ones is
/// drawn again instead of becoming zero.
cudaError_t orthogonalize(Real type, void* buffer, const Factors& factors, double epsilon,
                          const std::vector<std::uint64_t>& redraw_seeds, double* basis, cudaStream_t stream);

/// sum = (sum - P·Qᵀ) + bucket, with the product, the difference and the sum rounded to the type. If `p` and
/// `q` are null, nothing is subtracted; if `bucket` is null, nothing is added. The bucket counts as zero
/// beyond its `bucket_numel` elements.
cudaError_t accumulate(Real type, const Matrices& matrices, void* sum, const void* p, const void* q,
                       const void* bucket, std::int64_t bucket_numel, cudaStream_t stream);

/// bucket = P·Qᵀ, up to the end of the bucket.
cudaError_t reconstruct(Real type, const Matrices& matrices, const void* p, const void* q, void* bucket,
                        std::int64_t bucket_numel, cudaStream_t stream);

}  // namespace hookline::cuda
