#include "cuda/low_rank.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <type_traits>

namespace hookline::cuda {
namespace {

constexpr int kThreads = 1024;  // of the one block that orthogonalizes
constexpr int kWarp = 32;
constexpr int kMostRedraws = 3;

template <typename T>
struct Number {
  using Sum = float;
};
template <>
struct Number<double> {
  using Sum = double;
};

__device__ double widen(double value) { return value; }
__device__ float widen(float value) { return value; }
__device__ float widen(__half value) { return __half2float(value); }
__device__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ void narrow(double value, double& to) { to = value; }
__device__ void narrow(double value, float& to) { to = static_cast<float>(value); }
__device__ void narrow(double value, __half& to) { to = __double2half(value); }
__device__ void narrow(double value, __nv_bfloat16& to) { to = __double2bfloat16(value); }

/// The sum of a[i]·b[i], on every thread of the block, added in an order that depends on n alone.
__device__ double dot(const double* a, const double* b, std::int64_t n) {
  __shared__ double parts[kThreads / kWarp];
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) sum += a[i] * b[i];
  for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  __syncthreads();  // the parts of the call before have been read
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = sum;
  __syncthreads();
  double total = 0;
  for (int part = 0; part < kThreads / kWarp; ++part) total += parts[part];
  return total;
}

/// Between -1 and 1, from the bits of a counter (splitmix64).
__device__ double drawn(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t bits = seed + (counter + 1) * 0x9E3779B97F4A7C15u;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  bits ^= bits >> 31;
  return static_cast<double>(bits >> 11) * 0x1p-52 - 1;
}

/// By one block, so that the order of all sums is fixed.
template <typename T>
__global__ void __launch_bounds__(kThreads) orthogonalize_kernel(T* factor, double* basis, std::int64_t rank, std::int64_t n, double epsilon,
                                     int passes, double precision, bool redraw, std::uint64_t seed) {
  for (std::int64_t i = threadIdx.x; i < rank * n; i += kThreads) basis[i] = widen(factor[i]);
  __syncthreads();
  for (std::int64_t k = 0; k < rank; ++k) {
    double* vector = basis + k * n;
    for (int attempt = 0;; ++attempt) {
      const double norm_before = sqrt(dot(vector, vector, n));
      for (int pass = 0; pass < passes; ++pass) {
        for (std::int64_t earlier = 0; earlier < k; ++earlier) {
          const double* direction = basis + earlier * n;
          const double projection = dot(direction, vector, n);
          for (std::int64_t i = threadIdx.x; i < n; i += kThreads) vector[i] -= projection * direction[i];
          __syncthreads();
        }
      }
      const double norm = sqrt(dot(vector, vector, n));
      // False for NaN and infinity, which are passed on (as NaN) to be seen.
      const bool depends = norm == 0 || (isfinite(norm) && norm <= precision * norm_before);
      if (!depends) {
        for (std::int64_t i = threadIdx.x; i < n; i += kThreads) vector[i] /= norm + epsilon;
        __syncthreads();
        break;
      }
      // Where there are more vectors than dimensions, no draw helps.
      const bool again = redraw && attempt < kMostRedraws && k < n;
      for (std::int64_t i = threadIdx.x; i < n; i += kThreads)
        vector[i] = again ? drawn(seed, static_cast<std::uint64_t>((attempt * rank + k) * n + i)) : 0;
      __syncthreads();
      if (!again) break;
    }
  }
  for (std::int64_t i = threadIdx.x; i < rank * n; i += kThreads) narrow(basis[i], factor[i]);
}

template <typename T>
__global__ void reconstruct_kernel(const T* p, const T* q, T* matrix, T* rest, std::int64_t rank, std::int64_t n,
                                   std::int64_t m) {
  using Sum = typename Number<T>::Sum;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= m) return;
  for (std::int64_t row = blockIdx.y; row < n; row += gridDim.y) {
    Sum sum = 0;
    for (std::int64_t k = 0; k < rank; ++k) sum += widen(p[k * n + row]) * widen(q[k * m + column]);
    const std::int64_t at = row * m + column;
    T rounded;
    narrow(sum, rounded);
    matrix[at] = rounded;
    if (rest) narrow(widen(rest[at]) - widen(rounded), rest[at]);
  }
}

/// Not by <<<…>>>, which no C++ compiler reads: tests compile this file for the CPU too.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, unsigned threads, cudaStream_t stream,
                   Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/// What `run` returns for a null pointer of the type's own.
template <typename Run>
cudaError_t with_type(Real type, Run run) {
  switch (type) {
    case Real::float64:
      return run(static_cast<double*>(nullptr));
    case Real::float32:
      return run(static_cast<float*>(nullptr));
    case Real::float16:
      return run(static_cast<__half*>(nullptr));
    case Real::bfloat16:
      return run(static_cast<__nv_bfloat16*>(nullptr));
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t orthogonalize(Real type, void* factor, double* basis, std::int64_t rank, std::int64_t n, double epsilon,
                          int passes, double precision, bool redraw, std::uint64_t seed, cudaStream_t stream) {
  return with_type(type, [&](auto* null) {
    using Pointer = decltype(null);
    return launch(orthogonalize_kernel<std::remove_pointer_t<Pointer>>, dim3(1), kThreads, stream,
                  static_cast<Pointer>(factor), basis, rank, n, epsilon, passes, precision, redraw, seed);
  });
}

cudaError_t reconstruct(Real type, const void* p, const void* q, void* matrix, void* rest, std::int64_t rank,
                        std::int64_t n, std::int64_t m, cudaStream_t stream) {
  if (n == 0 || m == 0) return cudaSuccess;  // a grid may not be empty
  constexpr unsigned kColumns = 256;
  constexpr std::int64_t kMostRows = 65535;  // of a grid
  const dim3 grid(static_cast<unsigned>((m + kColumns - 1) / kColumns), static_cast<unsigned>(std::min(n, kMostRows)));
  return with_type(type, [&](auto* null) {
    using Pointer = decltype(null);
    using Read = const std::remove_pointer_t<Pointer>*;
    return launch(reconstruct_kernel<std::remove_pointer_t<Pointer>>, grid, kColumns, stream, static_cast<Read>(p),
                  static_cast<Read>(q), static_cast<Pointer>(matrix), static_cast<Pointer>(rest), rank, n, m);
  });
}

}  // namespace hookline::cuda
