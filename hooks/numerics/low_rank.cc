#include "hooks/numerics/low_rank.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace hookline {
namespace {

// Independent partial sums, so that the compiler may use vector registers without reordering a sum.
constexpr std::int64_t kLanes = 16;

template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
void widen(const T* from, Sum<T>* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<Sum<T>>(from[i]);
}

// One row of the matrix in the type of the sums: the row itself, or a converted copy in `scratch`.
template <typename T>
const Sum<T>* widened(const T* row, std::vector<Sum<T>>& scratch, std::int64_t count) {
  if constexpr (std::is_same_v<T, Sum<T>>) {
    return row;
  } else {
    widen(row, scratch.data(), count);
    return scratch.data();
  }
}

template <typename S>
S dot(const S* a, const S* b, std::int64_t count) {
  S lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  S sum = 0;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (const S lane : lanes) sum += lane;
  return sum;
}

// to += factor * from
template <typename S>
void add_scaled(S* to, const S* from, S factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

template <typename T>
std::vector<Sum<T>> widened_copy(const at::Tensor& tensor) {
  std::vector<Sum<T>> copy(static_cast<std::size_t>(tensor.numel()));
  widen(tensor.const_data_ptr<T>(), copy.data(), tensor.numel());
  return copy;
}

template <typename T>
void multiply_typed(const at::Tensor& matrix, const at::Tensor& q, const at::Tensor& p) {
  const std::int64_t n = matrix.size(0), m = matrix.size(1), rank = q.size(0);
  const std::vector<Sum<T>> columns = widened_copy<T>(q);
  std::vector<Sum<T>> scratch(static_cast<std::size_t>(m));
  T* out = p.mutable_data_ptr<T>();
  for (std::int64_t i = 0; i < n; ++i) {
    const Sum<T>* row = widened(matrix.const_data_ptr<T>() + i * m, scratch, m);
    for (std::int64_t k = 0; k < rank; ++k)
      out[k * n + i] = static_cast<T>(dot(row, columns.data() + k * m, m));
  }
}

template <typename T>
void multiply_transposed_typed(const at::Tensor& matrix, const at::Tensor& p, const at::Tensor& q) {
  const std::int64_t n = matrix.size(0), m = matrix.size(1), rank = q.size(0);
  const std::vector<Sum<T>> columns = widened_copy<T>(p);
  std::vector<Sum<T>> sums(static_cast<std::size_t>(rank * m));
  std::vector<Sum<T>> scratch(static_cast<std::size_t>(m));
  for (std::int64_t i = 0; i < n; ++i) {
    const Sum<T>* row = widened(matrix.const_data_ptr<T>() + i * m, scratch, m);
    for (std::int64_t k = 0; k < rank; ++k) {
      add_scaled(sums.data() + k * m, row, columns[static_cast<std::size_t>(k * n + i)], m);
    }
  }
  std::transform(sums.begin(), sums.end(), q.mutable_data_ptr<T>(),
                 [](Sum<T> sum) { return static_cast<T>(sum); });
}

template <typename T>
void reconstruct_typed(const at::Tensor& p, const at::Tensor& q, const at::Tensor& matrix) {
  const std::int64_t n = matrix.size(0), m = matrix.size(1), rank = q.size(0);
  const std::vector<Sum<T>> rows = widened_copy<T>(p), columns = widened_copy<T>(q);
  std::vector<Sum<T>> sums(static_cast<std::size_t>(m));
  T* out = matrix.mutable_data_ptr<T>();
  for (std::int64_t i = 0; i < n; ++i) {
    std::fill(sums.begin(), sums.end(), Sum<T>{0});
    for (std::int64_t k = 0; k < rank; ++k) {
      add_scaled(sums.data(), columns.data() + k * m, rows[static_cast<std::size_t>(k * n + i)], m);
    }
    std::transform(sums.begin(), sums.end(), out + i * m, [](Sum<T> sum) { return static_cast<T>(sum); });
  }
}

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

void multiply(const at::Tensor& matrix, const at::Tensor& q, const at::Tensor& p) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, matrix.scalar_type(), "power_sgd multiply",
                                  [&] { multiply_typed<scalar_t>(matrix, q, p); });
}

void multiply_transposed(const at::Tensor& matrix, const at::Tensor& p, const at::Tensor& q) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, matrix.scalar_type(),
                                  "power_sgd multiply_transposed",
                                  [&] { multiply_transposed_typed<scalar_t>(matrix, p, q); });
}

void reconstruct(const at::Tensor& p, const at::Tensor& q, const at::Tensor& matrix) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, matrix.scalar_type(), "power_sgd reconstruct",
                                  [&] { reconstruct_typed<scalar_t>(p, q, matrix); });
}

std::vector<std::int64_t> orthogonalize(const at::Tensor& factor, double epsilon) {
  std::vector<std::int64_t> dependent;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, factor.scalar_type(), "power_sgd orthogonalize",
                                  [&] { dependent = orthogonalize_typed<scalar_t>(factor, epsilon); });
  return dependent;
}

}  // namespace hookline
