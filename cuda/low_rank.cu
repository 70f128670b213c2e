#include "cuda/low_rank.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <type_traits>

#include "hooks/numerics/orthogonalization.h"

namespace hookline::cuda {
namespace {

constexpr int kThreads = 1024;  // of the block that orthogonalizes a factor
constexpr int kWarp = 32;
constexpr int kMostRedraws = 3;
constexpr int kTileColumns = 256, kTileRows = 8;  // of a matrix, for one block

/// The type of the sums of products, and the epsilon of a type of gradients.
template <typename T>
struct Number;
template <>
struct Number<double> {
  using Sum = double;
  static constexpr double epsilon = 0x1p-52;
};
template <>
struct Number<float> {
  using Sum = float;
  static constexpr double epsilon = 0x1p-23;
};
template <>
struct Number<__half> {
  using Sum = float;
  static constexpr double epsilon = 0x1p-10;
};
template <>
struct Number<__nv_bfloat16> {
  using Sum = float;
  static constexpr double epsilon = 0x1p-7;
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

/// What a launch works on. It is a parameter of the kernel: 4 kB of them are what every driver takes.
template <typename Entry>
struct Table {
  static constexpr unsigned kMost = 64;
  Entry entries[kMost];
  unsigned first_block[kMost];
  unsigned count = 0, blocks = 0;
};

struct FactorEntry {
  std::int64_t offset, basis_offset, rank, n;
  double epsilon;  // added to each norm
  std::uint64_t redraw_seed;
  int passes;  // how often each projection is done
};

static_assert(sizeof(Table<FactorEntry>) < 4000 && sizeof(Table<CompressedMatrix>) < 4000);

/// By one block a factor, so that the order of all sums is fixed. A vector whose length falls to `precision` of what it was
/// depends on earlier ones.
/// A thread has the same elements of every vector to itself. Only sums need barriers, and the copies, which divide the
/// elements otherwise.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    orthogonalize_kernel(const __grid_constant__ Table<FactorEntry> table, T* buffer, double* bases, double precision,
                         bool redraw) {
  const FactorEntry& entry = table.entries[blockIdx.x];
  const std::int64_t rank = entry.rank, n = entry.n;
  T* const factor = buffer + entry.offset;
  double* const basis = bases + entry.basis_offset;
  for (std::int64_t i = threadIdx.x; i < rank * n; i += kThreads) basis[i] = widen(factor[i]);
  __syncthreads();
  for (std::int64_t k = 0; k < rank; ++k) {
    double* vector = basis + k * n;
    for (int attempt = 0;; ++attempt) {
      const double norm_before = sqrt(dot(vector, vector, n));
      for (int pass = 0; pass < entry.passes; ++pass) {
        for (std::int64_t earlier = 0; earlier < k; ++earlier) {
          const double* direction = basis + earlier * n;
          const double projection = dot(direction, vector, n);
          for (std::int64_t i = threadIdx.x; i < n; i += kThreads) vector[i] -= projection * direction[i];
        }
      }
      const double norm = sqrt(dot(vector, vector, n));
      // False for NaN and infinity, which are passed on (as NaN) to be seen.
      const bool depends = norm == 0 || (isfinite(norm) && norm <= precision * norm_before);
      if (!depends) {
        for (std::int64_t i = threadIdx.x; i < n; i += kThreads) vector[i] /= norm + entry.epsilon;
        break;
      }
      // Where there are more vectors than dimensions, no draw helps.
      const bool again = redraw && attempt < kMostRedraws && k < n;
      for (std::int64_t i = threadIdx.x; i < n; i += kThreads)
        vector[i] = again ? drawn(entry.redraw_seed, static_cast<std::uint64_t>((attempt * rank + k) * n + i)) : 0;
      if (!again) break;
    }
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < rank * n; i += kThreads) narrow(basis[i], factor[i]);
}

__host__ __device__ std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Calls `run` with a matrix and each element of it that this thread has: a column of its block's tile.
template <typename Run>
__device__ void for_own_elements(const Table<CompressedMatrix>& table, Run run) {
  unsigned which = 0;  // the last whose first block is this one or before
  for (unsigned end = table.count; end - which > 1;) {
    const unsigned middle = which + (end - which) / 2;
    if (table.first_block[middle] <= blockIdx.x)
      which = middle;
    else
      end = middle;
  }
  const CompressedMatrix& matrix = table.entries[which];
  const std::int64_t tile = blockIdx.x - table.first_block[which], across = quotient_up(matrix.m, kTileColumns);
  const std::int64_t column = tile % across * kTileColumns + threadIdx.x, first_row = tile / across * kTileRows;
  if (column >= matrix.m) return;
  for (std::int64_t row = first_row; row < matrix.n && row < first_row + kTileRows; ++row) run(matrix, row, column);
}

/// An element of P·Qᵀ.
template <typename T>
__device__ T product_at(const CompressedMatrix& matrix, const T* p, const T* q, std::int64_t row, std::int64_t column) {
  typename Number<T>::Sum sum = 0;
  for (std::int64_t k = 0; k < matrix.rank; ++k)
    sum += widen(p[matrix.p_offset + k * matrix.n + row]) * widen(q[matrix.q_offset + k * matrix.m + column]);
  T rounded;
  narrow(sum, rounded);
  return rounded;
}

template <typename T>
__global__ void __launch_bounds__(kTileColumns)
    accumulate_kernel(const __grid_constant__ Table<CompressedMatrix> table, T* sum, const T* p, const T* q,
                      const T* bucket, std::int64_t bucket_numel) {
  for_own_elements(table, [&](const CompressedMatrix& matrix, std::int64_t row, std::int64_t column) {
    const std::int64_t at = matrix.offset + row * matrix.m + column;
    T value = sum[at];
    if (p) narrow(widen(value) - widen(product_at(matrix, p, q, row, column)), value);
    if (bucket && at < bucket_numel) narrow(widen(value) + widen(bucket[at]), value);
    sum[at] = value;
  });
}

template <typename T>
__global__ void __launch_bounds__(kTileColumns)
    reconstruct_kernel(const __grid_constant__ Table<CompressedMatrix> table, const T* p, const T* q, T* bucket,
                       std::int64_t bucket_numel) {
  for_own_elements(table, [&](const CompressedMatrix& matrix, std::int64_t row, std::int64_t column) {
    const std::int64_t at = matrix.offset + row * matrix.m + column;
    if (at < bucket_numel) bucket[at] = product_at(matrix, p, q, row, column);
  });
}

/// Not by <<<…>>>, which no C++ compiler reads: tests compile this file for the CPU too.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, cudaStream_t stream,
                   const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/// Calls `run` with tables of all entries that need any blocks, until one can't be launched.
template <typename Entry, typename Blocks, typename Run>
cudaError_t in_tables(const std::vector<Entry>& entries, Blocks blocks_of, Run run) {
  constexpr std::int64_t kMostBlocks = 0x7FFFFFFF;  // of a grid
  Table<Entry> table;
  for (const Entry& entry : entries) {
    const std::int64_t blocks = blocks_of(entry);
    if (table.count == table.kMost || (table.count > 0 && table.blocks + blocks > kMostBlocks)) {
      const cudaError_t error = run(table);
      if (error != cudaSuccess) return error;
      table.count = table.blocks = 0;
    }
    if (blocks == 0) continue;  // a grid may not be empty
    table.entries[table.count] = entry;
    table.first_block[table.count++] = table.blocks;
    table.blocks += static_cast<unsigned>(blocks);
  }
  return table.count == 0 ? cudaSuccess : run(table);
}

std::int64_t tiles_of(const CompressedMatrix& matrix) {
  return quotient_up(matrix.n, kTileRows) * quotient_up(matrix.m, kTileColumns);
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

cudaError_t orthogonalize(Real type, void* buffer, const Factors& factors, double epsilon,
                          const std::vector<std::uint64_t>& redraw_seeds, double* basis, cudaStream_t stream) {
  return with_type(type, [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    std::vector<FactorEntry> entries;
    double precision = 0;
    std::int64_t basis_offset = 0;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const auto& [offset, rank, n] = factors[i];
      const Orthogonalization rule = orthogonalization_of(rank, sizeof(T), Number<T>::epsilon, epsilon);
      precision = rule.precision;  // of the type alone
      entries.push_back({offset, basis_offset, rank, n, rule.epsilon, redraw_seeds.empty() ? 0 : redraw_seeds[i],
                         rule.passes});
      basis_offset += rank * n;
    }
    const auto blocks = [](const FactorEntry& entry) -> std::int64_t { return entry.rank * entry.n > 0; };
    return in_tables(entries, blocks, [&](const Table<FactorEntry>& table) {
      return launch(orthogonalize_kernel<T>, table.blocks, kThreads, stream, table, static_cast<T*>(buffer), basis,
                    precision, !redraw_seeds.empty());
    });
  });
}

cudaError_t accumulate(Real type, const Matrices& matrices, void* sum, const void* p, const void* q,
                       const void* bucket, std::int64_t bucket_numel, cudaStream_t stream) {
  return with_type(type, [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    return in_tables(matrices, tiles_of, [&](const Table<CompressedMatrix>& table) {
      return launch(accumulate_kernel<T>, table.blocks, kTileColumns, stream, table, static_cast<T*>(sum),
                    static_cast<const T*>(p), static_cast<const T*>(q), static_cast<const T*>(bucket), bucket_numel);
    });
  });
}

cudaError_t reconstruct(Real type, const Matrices& matrices, const void* p, const void* q, void* bucket,
                        std::int64_t bucket_numel, cudaStream_t stream) {
  return with_type(type, [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    return in_tables(matrices, tiles_of, [&](const Table<CompressedMatrix>& table) {
      return launch(reconstruct_kernel<T>, table.blocks, kTileColumns, stream, table, static_cast<const T*>(p),
                    static_cast<const T*>(q), static_cast<T*>(bucket), bucket_numel);
    });
  });
}

}  // namespace hookline::cuda
