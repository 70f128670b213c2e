#include "hooks/numerics/low_rank.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace hookline {
namespace {

template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

namespace plain {
#include "hooks/numerics/low_rank_kernels.inc"
}  // namespace plain

#ifdef __x86_64__
// Twice as wide, and with the CPU's own conversions of half precision. Chosen at run time.
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#define HOOKLINE_KERNELS_HAVE_F16C
namespace wide {
#include "hooks/numerics/low_rank_kernels.inc"
}  // namespace wide
#undef HOOKLINE_KERNELS_HAVE_F16C
#pragma GCC pop_options

bool is_wide(Kernels kernels) {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return has && kernels == Kernels::best;
}
#else
namespace wide = plain;
bool is_wide(Kernels) { return false; }
#endif

using plain::add_scaled;
using plain::dot;

template <typename T>
std::vector<std::int64_t> orthogonalize_typed(const at::Tensor& factor, double epsilon) {
  const std::int64_t rank = factor.size(0), n = factor.size(1);
  const double precision = 4 * static_cast<double>(std::numeric_limits<T>::epsilon());
  std::vector<double> basis(static_cast<std::size_t>(rank * n));
  T* data = factor.mutable_data_ptr<T>();
  std::transform(data, data + rank * n, basis.begin(), [](T value) { return static_cast<double>(value); });

  // PyTorch takes a QR decomposition here, which knows no epsilon.
  if (rank > 2 && sizeof(T) >= sizeof(float)) epsilon = 0;
  // With an epsilon a direction is shorter than 1 and what is projected out is less than all; twice would be too much.
  const int passes = epsilon == 0 ? 2 : 1;

  std::vector<std::int64_t> dependent;
  for (std::int64_t k = 0; k < rank; ++k) {
    double* vector = basis.data() + k * n;
    const double norm_before = std::sqrt(dot(vector, vector, n));
    for (int pass = 0; pass < passes; ++pass) {
      for (std::int64_t earlier = 0; earlier < k; ++earlier) {
        const double* direction = basis.data() + earlier * n;
        add_scaled(vector, direction, -dot(direction, vector, n), n);
      }
    }
    const double norm = std::sqrt(dot(vector, vector, n));
    // False for NaN and infinity, which are passed on (as NaN) to be seen.
    if (norm == 0 || (std::isfinite(norm) && norm <= precision * norm_before)) {
      std::fill(vector, vector + n, 0.0);
      dependent.push_back(k);
    } else {
      for (std::int64_t i = 0; i < n; ++i) vector[i] /= norm + epsilon;
    }
  }
  std::transform(basis.begin(), basis.end(), data, [](double value) { return static_cast<T>(value); });
  return dependent;
}

}  // namespace

void multiply(const at::Tensor& matrix, const at::Tensor& q, const at::Tensor& p, Kernels kernels) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, matrix.scalar_type(), "power_sgd multiply", [&] {
    const auto run = is_wide(kernels) ? wide::multiply_typed<scalar_t> : plain::multiply_typed<scalar_t>;
    run(matrix, q, p);
  });
}

void multiply_transposed(const at::Tensor& matrix, const at::Tensor& p, const at::Tensor& q,
                         Kernels kernels) {
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, matrix.scalar_type(), "power_sgd multiply_transposed", [&] {
        const auto run = is_wide(kernels) ? wide::multiply_transposed_typed<scalar_t>
                                          : plain::multiply_transposed_typed<scalar_t>;
        run(matrix, p, q);
      });
}

void reconstruct(const at::Tensor& p, const at::Tensor& q, const at::Tensor& matrix, Kernels kernels) {
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, matrix.scalar_type(), "power_sgd reconstruct", [&] {
        const auto run =
            is_wide(kernels) ? wide::reconstruct_typed<scalar_t> : plain::reconstruct_typed<scalar_t>;
        run(p, q, matrix);
      });
}

std::vector<std::int64_t> orthogonalize(const at::Tensor& factor, double epsilon) {
  std::vector<std::int64_t> dependent;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, factor.scalar_type(), "power_sgd orthogonalize",
                                  [&] { dependent = orthogonalize_typed<scalar_t>(factor, epsilon); });
  return dependent;
}

}  // namespace hookline
