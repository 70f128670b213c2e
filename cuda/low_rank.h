// PowerSGD's arithmetic on a GPU, in plain CUDA: nvcc does not see libtorch's headers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace hookline::cuda {

enum class Real { float64, float32, float16, bfloat16 };

/// Makes the vectors of `factor` [rank, n] orthonormal, in place; `basis` is room for [rank, n] doubles. `passes` is how
/// often each projection is done; a vector whose length falls to `precision` of what it was depends on earlier ones. It
/// becomes zero or, with `redraw`, is drawn anew from `seed`.
cudaError_t orthogonalize(Real type, void* factor, double* basis, std::int64_t rank, std::int64_t n,
                          double epsilon, int passes, double precision, bool redraw, std::uint64_t seed,
                          cudaStream_t stream);

/// matrix [n, m] = pᵀ·q of p [rank, n] and q [rank, m]; and rest -= matrix, unless `rest` is null.
cudaError_t reconstruct(Real type, const void* p, const void* q, void* matrix, void* rest, std::int64_t rank,
                        std::int64_t n, std::int64_t m, cudaStream_t stream);

}  // namespace hookline::cuda
