// The products and the orthogonalization of PowerSGD, for a few columns.
//
// A factor of rank r is kept as r contiguous vectors: P is [r, n], Q is [r, m] for a matrix M of [n, m].
//
// Every rank must end with the same bits. What runs after a collective (orthogonalize, reconstruct) is therefore
// plain arithmetic in one fixed order, whatever the alignment, the number of threads or the CPU; this file's source
// is compiled without fused multiply-add. On GPUs it is done by the kernels of cuda_kernels.h, behind what the current
// stream holds.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hooks/numerics/kernels.h"

namespace hookline {

/// P = M·Q. matrix [n, m], q [r, m], p [r, n] (written); contiguous tensors of one floating dtype.
/// Sums in float, or in double for double.
void multiply(const at::Tensor& matrix, const at::Tensor& q, const at::Tensor& p,
              Kernels kernels = Kernels::best);

/// M += added, rounded as at::Tensor::add_ does, and P = M·Q of the sum: one pass over memory. added [n, m].
void add_and_multiply(const at::Tensor& matrix, const at::Tensor& added, const at::Tensor& q,
                      const at::Tensor& p, Kernels kernels = Kernels::best);

/// Q = Mᵀ·P. matrix [n, m], p [r, n], q [r, m] (written).
void multiply_transposed(const at::Tensor& matrix, const at::Tensor& p, const at::Tensor& q,
                         Kernels kernels = Kernels::best);

/// M = P·Qᵀ. p [r, n], q [r, m], matrix [n, m] (written).
void reconstruct(const at::Tensor& p, const at::Tensor& q, const at::Tensor& matrix,
                 Kernels kernels = Kernels::best);

/// The same, and rest -= M, rounded as at::Tensor::sub_ does: one pass over memory. rest [n, m].
void reconstruct_and_subtract(const at::Tensor& p, const at::Tensor& q, const at::Tensor& matrix,
                              const at::Tensor& rest, Kernels kernels = Kernels::best);

/// No element of the contiguous CPU tensor is NaN or infinite.
bool is_finite(const at::Tensor& tensor);

/// Makes the vectors of `factor` [r, n] orthonormal, in place: Gram–Schmidt with each projection done twice, in
/// double, so that it holds where columns are nearly parallel.
/// An `epsilon` above 0 is added to each norm, and the projections, done once, use the shorter vectors; float and double
/// factors of more than 2 vectors have none.
/// A vector that is zero, or that depends on the earlier ones to the precision of the dtype, becomes zero instead of
/// NaN; the indices of these are returned (of a factor on a GPU none, since that would take waiting for it).
/// Source: Vogels et al. 2019, algorithm 1, "orthogonalize"; torch powerSGD_hook._orthogonalize, which divides by
/// zero there and takes a QR decomposition above rank 2 (the same space, other signs).
std::vector<std::int64_t> orthogonalize(const at::Tensor& factor, double epsilon);

}  // namespace hookline
