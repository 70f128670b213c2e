// The functions of hooks/numerics/low_rank.h for one matrix and its factors, as tensors of two dimensions.
#pragma once

#include <cstdint>
#include <vector>

#include "hooks/numerics/low_rank.h"

namespace hookline::testing {

/// The only matrix [n, m] of a bucket, with factors of the same rank as `factor` [rank, …].
inline Matrices one_matrix(const at::Tensor& matrix, const at::Tensor& factor) {
  return {{0, matrix.size(0), matrix.size(1), factor.size(0), 0, 0}};
}

inline at::Tensor flat(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.view({tensor.numel()}) : tensor;
}

/// matrix += added, then P = matrix·Q.
inline void add_and_multiply(const at::Tensor& matrix, const at::Tensor& added, const at::Tensor& q,
                             const at::Tensor& p, Kernels kernels = Kernels::best) {
  accumulate_and_multiply(one_matrix(matrix, q), flat(matrix), {}, flat(added), {flat(p), flat(q)}, kernels);
}

inline void multiply(const at::Tensor& matrix, const at::Tensor& q, const at::Tensor& p,
                     Kernels kernels = Kernels::best) {
  add_and_multiply(matrix, at::Tensor(), q, p, kernels);
}

inline void multiply_transposed(const at::Tensor& matrix, const at::Tensor& p, const at::Tensor& q,
                                Kernels kernels = Kernels::best) {
  hookline::multiply_transposed(one_matrix(matrix, p), flat(matrix), {flat(p), flat(q)}, kernels);
}

inline void reconstruct(const at::Tensor& p, const at::Tensor& q, const at::Tensor& matrix,
                        Kernels kernels = Kernels::best) {
  hookline::reconstruct(one_matrix(matrix, p), {flat(p), flat(q)}, flat(matrix), kernels);
}

/// matrix = P·Qᵀ, then rest -= P·Qᵀ.
inline void reconstruct_and_subtract(const at::Tensor& p, const at::Tensor& q, const at::Tensor& matrix,
                                     const at::Tensor& rest, Kernels kernels = Kernels::best) {
  reconstruct(p, q, matrix, kernels);
  accumulate(one_matrix(rest, p), flat(rest), {flat(p), flat(q)}, at::Tensor(), kernels);
}

/// Returns the indices of the vectors that became zero.
inline std::vector<std::int64_t> orthogonalize(const at::Tensor& factor, double epsilon) {
  std::vector<std::int64_t> dependent;
  for (const DependentVector& d :
       hookline::orthogonalize(flat(factor), {{0, factor.size(0), factor.size(1)}}, epsilon))
    dependent.push_back(d.vector);
  return dependent;
}

}  // namespace hookline::testing
