// The passes of PowerSGD over a bucket: its products, for a few columns, and the orthogonalization of its
// factors.
//
// All tensors are flat, contiguous, of one floating dtype and on one device: a bucket, or all factors P or Q
// of its matrices. A factor of rank r is kept as r contiguous vectors: P is [r, n], Q is [r, m] for a matrix
// M of [n, m]; sums are taken in float, or in double for double. A call does all matrices of the bucket, on
// as many of libtorch's threads as the work is enough for.
//
// A step with error feedback sweeps the bucket five times: accumulate_and_multiply reads gradients and M and
// writes M, multiply_transposed reads M, reconstruct writes gradients. The new error M − P·Qᵀ is not stored,
// but formed in the first sweep of the next step.
//
// Every rank must end with the same bits. What runs after a collective (orthogonalize, reconstruct) is
// therefore plain arithmetic in one fixed order, whatever the alignment, the number of threads or the CPU;
// this file's source is compiled without fused multiply-add. On GPUs it is done by the kernels of
// cuda_kernels.h, behind what the current stream holds.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hooks/numerics/bucket_parts.h"
#include "hooks/numerics/kernels.h"

namespace hookline {

/// Factors of all matrices of a bucket; or none, undefined.
struct FactorPair {
  at::Tensor p, q;
};

/// M = (M − P·Qᵀ) + G for the matrices M in `sum` and G in `bucket`, rounded after each step as
/// at::Tensor::sub_ and add_ do: what the last step's factors `before` left out, and this step's gradients.
/// Without `before` nothing is subtracted, without `bucket` nothing is added. A bucket that ends before its
/// last matrix does is zero behind its end.
void accumulate(const Matrices& matrices, const at::Tensor& sum, const FactorPair& before,
                const at::Tensor& bucket, Kernels kernels = Kernels::best);

/// The same, and P = M·Q of the sum in one pass over memory; `now` holds Q, and P is written.
void accumulate_and_multiply(const Matrices& matrices, const at::Tensor& sum, const FactorPair& before,
                             const at::Tensor& bucket, const FactorPair& now,
                             Kernels kernels = Kernels::best);

/// Q = Mᵀ·P for the matrices in `bucket`; Q is written.
void multiply_transposed(const Matrices& matrices, const at::Tensor& bucket, const FactorPair& factors,
                         Kernels kernels = Kernels::best);

/// M = P·Qᵀ for the matrices in `bucket`, as far as it reaches.
void reconstruct(const Matrices& matrices, const FactorPair& factors, const at::Tensor& bucket,
                 Kernels kernels = Kernels::best);

/// For the plain segments: adds `bucket` to `sum`, unless `sum` is undefined, and copies the result into `p`,
/// behind the factors.
void add_plain(const PlainSegments& segments, const at::Tensor& sum, const at::Tensor& bucket,
               const at::Tensor& p);

/// For the plain segments: copies their values from `p` to `bucket`, and subtracts them from `sum` if that is
/// defined.
void take_plain(const PlainSegments& segments, const at::Tensor& p, const at::Tensor& bucket,
                const at::Tensor& sum);

/// No element of the contiguous CPU tensor is NaN or infinite.
bool is_finite(const at::Tensor& tensor);

/// A vector of a factor, by their numbers.
struct DependentVector {
  std::size_t factor;
  std::int64_t vector;
};

/// Makes the vectors of each factor in `buffer` orthonormal, in place: Gram–Schmidt with each projection done
/// twice, in double, so that it holds where columns are nearly parallel. An `epsilon` above 0 is added to
/// each norm, which leaves vectors shorter than 1, so each projection is done once. It is ignored for float
/// and double factors of more than 2 vectors. A vector that is zero, or that depends on earlier ones to the
/// precision of the dtype, becomes zero instead of NaN. Returns these vectors in order; for factors on a GPU
/// returns none, to avoid waiting for the GPU. Source: Vogels et al. 2019, algorithm 1, "orthogonalize";
/// torch powerSGD_hook._orthogonalize, which divides by zero there and takes a QR decomposition above rank 2
/// (the same space, other signs).
std::vector<DependentVector> orthogonalize(const at::Tensor& buffer, const Factors& factors, double epsilon);

}  // namespace hookline
