#include "hooks/numerics/low_rank.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "hooks/numerics/cuda_kernels.h"
#include "hooks/numerics/orthogonalization.h"

#define HOOKLINE_KERNELS "hooks/numerics/low_rank_kernels.inc"
#include "hooks/numerics/both_forms.inc"

namespace hookline {
namespace {

double dot(const double* a, const double* b, std::int64_t count) {
  double product;
  plain::dots<1>(a, b, count, &product, 1);
  return product;
}

/// to += factor * from
void add_scaled(double* to, const double* from, double factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

template <typename T>
std::vector<std::int64_t> orthogonalize_typed(const at::Tensor& factor, double epsilon) {
  const std::int64_t rank = factor.size(0), n = factor.size(1);
  const auto rule =
      orthogonalization_of(rank, sizeof(T), static_cast<double>(std::numeric_limits<T>::epsilon()), epsilon);
  double* basis = plain::scratch<double, plain::Purpose::factor>(rank * n);
  T* data = factor.mutable_data_ptr<T>();
  std::transform(data, data + rank * n, basis, [](T value) { return static_cast<double>(value); });

  std::vector<std::int64_t> dependent;
  for (std::int64_t k = 0; k < rank; ++k) {
    double* vector = basis + k * n;
    const double norm_before = std::sqrt(dot(vector, vector, n));
    for (int pass = 0; pass < rule.passes; ++pass) {
      for (std::int64_t earlier = 0; earlier < k; ++earlier) {
        const double* direction = basis + earlier * n;
        add_scaled(vector, direction, -dot(direction, vector, n), n);
      }
    }
    const double norm = std::sqrt(dot(vector, vector, n));
    // False for NaN and infinity, which are passed on (as NaN) to be seen.
    if (norm == 0 || (std::isfinite(norm) && norm <= rule.precision * norm_before)) {
      std::fill(vector, vector + n, 0.0);
      dependent.push_back(k);
    } else {
      for (std::int64_t i = 0; i < n; ++i) vector[i] /= norm + rule.epsilon;
    }
  }
  std::transform(basis, basis + rank * n, data, [](double value) { return static_cast<T>(value); });
  return dependent;
}

}  // namespace

void multiply(const at::Tensor& matrix, const at::Tensor& q, const at::Tensor& p, Kernels kernels) {
  add_and_multiply(matrix, at::Tensor(), q, p, kernels);
}

void add_and_multiply(const at::Tensor& matrix, const at::Tensor& added, const at::Tensor& q,
                      const at::Tensor& p, Kernels kernels) {
  if (matrix.is_cuda()) {
    at::Tensor sum = matrix, product = p;
    if (added.defined()) sum.add_(added);
    at::mm_out(product, q, sum.t());
    return;
  }
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, matrix.scalar_type(), "power_sgd multiply", [&] {
    const auto run = is_wide(kernels) ? wide::multiply_typed<scalar_t> : plain::multiply_typed<scalar_t>;
    run(matrix, added, q, p);
  });
}

void multiply_transposed(const at::Tensor& matrix, const at::Tensor& p, const at::Tensor& q,
                         Kernels kernels) {
  if (matrix.is_cuda()) {
    at::Tensor product = q;
    at::mm_out(product, p, matrix);
    return;
  }
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, matrix.scalar_type(), "power_sgd multiply_transposed", [&] {
        const auto run = is_wide(kernels) ? wide::multiply_transposed_typed<scalar_t>
                                          : plain::multiply_transposed_typed<scalar_t>;
        run(matrix, p, q);
      });
}

void reconstruct(const at::Tensor& p, const at::Tensor& q, const at::Tensor& matrix, Kernels kernels) {
  reconstruct_and_subtract(p, q, matrix, at::Tensor(), kernels);
}

void reconstruct_and_subtract(const at::Tensor& p, const at::Tensor& q, const at::Tensor& matrix,
                              const at::Tensor& rest, Kernels kernels) {
  if (matrix.is_cuda()) {
    cuda_kernels().reconstruct({{0, matrix.size(0), matrix.size(1), q.size(0), 0, 0}}, p.view({-1}),
                               q.view({-1}), matrix.view({-1}));
    if (rest.defined()) at::Tensor(rest).sub_(matrix);
    return;
  }
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, matrix.scalar_type(), "power_sgd reconstruct", [&] {
        const auto run =
            is_wide(kernels) ? wide::reconstruct_typed<scalar_t> : plain::reconstruct_typed<scalar_t>;
        run(p, q, matrix, rest);
      });
}

bool is_finite(const at::Tensor& tensor) {
  bool finite = false;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, tensor.scalar_type(), "power_sgd is_finite", [&] {
    const auto run =
        is_wide(Kernels::best) ? wide::is_finite_typed<scalar_t> : plain::is_finite_typed<scalar_t>;
    finite = run(tensor);
  });
  return finite;
}

std::vector<std::int64_t> orthogonalize(const at::Tensor& factor, double epsilon) {
  std::vector<std::int64_t> dependent;
  if (factor.is_cuda()) {
    cuda_kernels().orthogonalize(factor.view({-1}), {{0, factor.size(0), factor.size(1)}}, epsilon, {});
    return dependent;
  }
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, factor.scalar_type(), "power_sgd orthogonalize",
                                  [&] { dependent = orthogonalize_typed<scalar_t>(factor, epsilon); });
  return dependent;
}

}  // namespace hookline
