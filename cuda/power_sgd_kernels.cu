#include "cuda/power_sgd_kernels.h"

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
// The elements of a matrix that a thread processes, with adjacent columns, and the tile of a block of 64 × 4
// threads.
constexpr int kColumns = 4, kRows = 8;
constexpr int kThreadsAcross = 64, kThreadsDown = 4;
constexpr int kTileColumns = kThreadsAcross * kColumns, kTileRows = kThreadsDown * kRows;

/// For a type of gradients: the type in which products are summed, and its own epsilon.
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

/// The same for kColumns values at once, 16-bit ones in pairs.
template <typename T>
__device__ void widen(const T (&from)[kColumns], typename Number<T>::Sum (&to)[kColumns]) {
  for (int i = 0; i < kColumns; ++i) to[i] = widen(from[i]);
}
__device__ void widen(const __half (&from)[kColumns], float (&to)[kColumns]) {
  for (int i = 0; i < kColumns; i += 2) {
    const float2 two = __half22float2(__halves2half2(from[i], from[i + 1]));
    to[i] = two.x;
    to[i + 1] = two.y;
  }
}
__device__ void widen(const __nv_bfloat16 (&from)[kColumns], float (&to)[kColumns]) {
  for (int i = 0; i < kColumns; i += 2) {
    const float2 two = __bfloat1622float2(__halves2bfloat162(from[i], from[i + 1]));
    to[i] = two.x;
    to[i + 1] = two.y;
  }
}

template <typename T>
__device__ void narrow(const typename Number<T>::Sum (&from)[kColumns], T (&to)[kColumns]) {
  for (int i = 0; i < kColumns; ++i) to[i] = from[i];
}
__device__ void narrow(const float (&from)[kColumns], __half (&to)[kColumns]) {
  for (int i = 0; i < kColumns; i += 2) {
    const __half2 two = __floats2half2_rn(from[i], from[i + 1]);
    to[i] = __low2half(two);
    to[i + 1] = __high2half(two);
  }
}
__device__ void narrow(const float (&from)[kColumns], __nv_bfloat16 (&to)[kColumns]) {
  for (int i = 0; i < kColumns; i += 2) {
    const __nv_bfloat162 two = __floats2bfloat162_rn(from[i], from[i + 1]);
    to[i] = __low2bfloat16(two);
    to[i + 1] = __high2bfloat16(two);
  }
}

/// The sum of a[i]·b[i], on every thread of the block, added in an order that depends on n alone.
__device__ double dot(const double* a, const double* b, std::int64_t n) {
  __shared__ double parts[kThreads / kWarp];
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) sum += a[i] * b[i];
  for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  __syncthreads();  // wait until the previous call's parts have been read
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = sum;
  __syncthreads();
  double total = 0;
  for (int part = 0; part < kThreads / kWarp; ++part) total += parts[part];
  return total;
}

/// A pseudo-random number between -1 and 1, from the bits of a counter (splitmix64).
__device__ double drawn(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t bits = seed + (counter + 1) * 0x9E3779B97F4A7C15u;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  bits ^= bits >> 31;
  return static_cast<double>(bits >> 11) * 0x1p-52 - 1;
}

/// What a launch works on. It is passed as a kernel parameter, of which every driver accepts 4 kB.
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

/// Runs one block per factor, so that the order of all sums is fixed. A vector whose length falls to
/// `precision` times its former length depends on earlier ones.
/// Each thread owns the same elements of every vector. Only the sums and the copies need barriers: the copies
/// divide the elements differently.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    orthogonalize_kernel(const __grid_constant__ Table<FactorEntry> table, T* buffer, double* bases,
                         double precision, bool redraw) {
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
      // False for NaN and infinity, which stay in the result as NaN, so that they are noticed.
      const bool depends = norm == 0 || (isfinite(norm) && norm <= precision * norm_before);
      if (!depends) {
        for (std::int64_t i = threadIdx.x; i < n; i += kThreads) vector[i] /= norm + entry.epsilon;
        break;
      }
      // With more vectors than dimensions, drawing again does not help.
      const bool again = redraw && attempt < kMostRedraws && k < n;
      for (std::int64_t i = threadIdx.x; i < n; i += kThreads)
        vector[i] =
            again ? drawn(entry.redraw_seed, static_cast<std::uint64_t>((attempt * rank + k) * n + i)) : 0;
      if (!again) break;
    }
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < rank * n; i += kThreads) narrow(basis[i], factor[i]);
}

__host__ __device__ std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A thread's elements of one row. They are read or written in one access if all of them exist and are
/// aligned.
template <typename T>
struct alignas(kColumns * sizeof(T)) Together {
  T values[kColumns];
};

template <typename T>
__host__ __device__ bool is_aligned(const T* values, std::int64_t offset, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(values + offset) % sizeof(Together<T>) == 0 &&
         stride % kColumns == 0;
}

template <typename T>
__device__ void read(const T* from, int count, bool at_once, T (&to)[kColumns]) {
  if (at_once && count == kColumns) {
    const Together<T> all = *reinterpret_cast<const Together<T>*>(from);
    for (int i = 0; i < kColumns; ++i) to[i] = all.values[i];
  } else {
    for (int i = 0; i < kColumns; ++i)
      if (i < count) to[i] = from[i];
  }
}

template <typename T>
__device__ void write(const T (&from)[kColumns], int count, bool at_once, T* to) {
  if (at_once && count == kColumns) {
    Together<T> all;
    for (int i = 0; i < kColumns; ++i) all.values[i] = from[i];
    *reinterpret_cast<Together<T>*>(to) = all;
  } else {
    for (int i = 0; i < kColumns; ++i)
      if (i < count) to[i] = from[i];
  }
}

__device__ int at_most(int most, std::int64_t count) {
  return count < 0 ? 0 : count < most ? static_cast<int>(count) : most;
}

/// This thread's part of a matrix: fewer rows and columns, or none, at the edges of the matrix.
struct Patch {
  CompressedMatrix matrix;
  std::int64_t row, column;
  int rows, columns;

  __device__ std::int64_t offset(int r) const { return matrix.offset + (row + r) * matrix.m + column; }
};

__device__ Patch own_patch(const Table<CompressedMatrix>& table) {
  unsigned which = 0;  // the last entry that begins at or before this block
  for (unsigned end = table.count; end - which > 1;) {
    const unsigned middle = which + (end - which) / 2;
    if (table.first_block[middle] <= blockIdx.x)
      which = middle;
    else
      end = middle;
  }
  Patch patch{table.entries[which], 0, 0, 0, 0};
  const unsigned tile = blockIdx.x - table.first_block[which];
  const auto across = static_cast<unsigned>(quotient_up(patch.matrix.m, kTileColumns));
  patch.column =
      static_cast<std::int64_t>(tile % across) * kTileColumns + threadIdx.x % kThreadsAcross * kColumns;
  patch.row = static_cast<std::int64_t>(tile / across) * kTileRows + threadIdx.x / kThreadsAcross * kRows;
  patch.columns = at_most(kColumns, patch.matrix.m - patch.column);
  patch.rows = at_most(kRows, patch.matrix.n - patch.row);
  return patch;
}

/// The patch's elements of P·Qᵀ.
template <typename T>
__device__ void multiply(const Patch& patch, const T* __restrict__ p, const T* __restrict__ q,
                         T (&products)[kRows][kColumns]) {
  using Sum = typename Number<T>::Sum;
  const CompressedMatrix& matrix = patch.matrix;
  const bool at_once = is_aligned(q, matrix.q_offset, matrix.m);
  Sum sums[kRows][kColumns] = {};
  for (std::int64_t k = 0; k < matrix.rank; ++k) {
    T read_across[kColumns] = {};
    read(q + matrix.q_offset + k * matrix.m + patch.column, patch.columns, at_once, read_across);
    Sum across[kColumns];
    widen(read_across, across);
    const T* down = p + matrix.p_offset + k * matrix.n + patch.row;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= patch.rows) continue;
      const Sum factor = widen(down[r]);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) sums[r][c] += factor * across[c];
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) narrow(sums[r], products[r]);
}

template <typename T>
__global__ void __launch_bounds__(kThreadsAcross* kThreadsDown)
    accumulate_kernel(const __grid_constant__ Table<CompressedMatrix> table, T* __restrict__ sum,
                      const T* __restrict__ p, const T* __restrict__ q, const T* __restrict__ bucket,
                      std::int64_t bucket_numel) {
  using Sum = typename Number<T>::Sum;
  const Patch patch = own_patch(table);
  if (patch.rows == 0 || patch.columns == 0) return;
  T products[kRows][kColumns];
  if (p) multiply(patch, p, q, products);
  const bool at_once = is_aligned(sum, patch.matrix.offset, patch.matrix.m),
             bucket_at_once = bucket && is_aligned(bucket, patch.matrix.offset, patch.matrix.m);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= patch.rows) continue;
    const std::int64_t at = patch.offset(r);
    T values[kColumns] = {}, added[kColumns] = {};
    read(sum + at, patch.columns, at_once, values);
    const int count = bucket ? at_most(patch.columns, bucket_numel - at) : 0;
    if (count > 0) read(bucket + at, count, bucket_at_once, added);
    Sum sums[kColumns], others[kColumns];
    widen(values, sums);
    if (p) {
      widen(products[r], others);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) sums[c] -= others[c];
      narrow(sums, values);
      widen(values, sums);
    }
    if (count > 0) {
      widen(added, others);
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        if (c < count) sums[c] += others[c];
      narrow(sums, values);
    }
    write(values, patch.columns, at_once, sum + at);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreadsAcross* kThreadsDown)
    reconstruct_kernel(const __grid_constant__ Table<CompressedMatrix> table, const T* __restrict__ p,
                       const T* __restrict__ q, T* __restrict__ bucket, std::int64_t bucket_numel) {
  const Patch patch = own_patch(table);
  if (patch.rows == 0 || patch.columns == 0) return;
  T products[kRows][kColumns];
  multiply(patch, p, q, products);
  const bool at_once = is_aligned(bucket, patch.matrix.offset, patch.matrix.m);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= patch.rows) continue;
    const std::int64_t at = patch.offset(r);
    const int count = at_most(patch.columns, bucket_numel - at);
    if (count > 0) write(products[r], count, at_once, bucket + at);
  }
}

/// Launches without <<<…>>>, which C++ compilers can't parse: tests also compile this file for the CPU.
template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, cudaStream_t stream,
                   const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/// Calls `run` with tables of the entries that need blocks, until all are done or a launch fails.
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

/// Calls `run` with a null pointer of the C++ type of `type`, and returns its result.
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
                          const std::vector<std::uint64_t>& redraw_seeds, double* basis,
                          cudaStream_t stream) {
  return with_type(type, [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    std::vector<FactorEntry> entries;
    double precision = 0;
    std::int64_t basis_offset = 0;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const auto& [offset, rank, n] = factors[i];
      const Orthogonalization rule = orthogonalization_of(rank, sizeof(T), Number<T>::epsilon, epsilon);
      precision = rule.precision;  // depends only on the type
      entries.push_back({offset, basis_offset, rank, n, rule.epsilon,
                         redraw_seeds.empty() ? 0 : redraw_seeds[i], rule.passes});
      basis_offset += rank * n;
    }
    const auto blocks = [](const FactorEntry& entry) -> std::int64_t { return entry.rank * entry.n > 0; };
    return in_tables(entries, blocks, [&](const Table<FactorEntry>& table) {
      return launch(orthogonalize_kernel<T>, table.blocks, kThreads, stream, table, static_cast<T*>(buffer),
                    basis, precision, !redraw_seeds.empty());
    });
  });
}

cudaError_t accumulate(Real type, const Matrices& matrices, void* sum, const void* p, const void* q,
                       const void* bucket, std::int64_t bucket_numel, cudaStream_t stream) {
  return with_type(type, [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    return in_tables(matrices, tiles_of, [&](const Table<CompressedMatrix>& table) {
      return launch(accumulate_kernel<T>, table.blocks, kThreadsAcross * kThreadsDown, stream, table,
                    static_cast<T*>(sum), static_cast<const T*>(p), static_cast<const T*>(q),
                    static_cast<const T*>(bucket), bucket_numel);
    });
  });
}

cudaError_t reconstruct(Real type, const Matrices& matrices, const void* p, const void* q, void* bucket,
                        std::int64_t bucket_numel, cudaStream_t stream) {
  return with_type(type, [&](auto* null) {
    using T = std::remove_pointer_t<decltype(null)>;
    return in_tables(matrices, tiles_of, [&](const Table<CompressedMatrix>& table) {
      return launch(reconstruct_kernel<T>, table.blocks, kThreadsAcross * kThreadsDown, stream, table,
                    static_cast<const T*>(p), static_cast<const T*>(q), static_cast<T*>(bucket),
                    bucket_numel);
    });
  });
}

}  // namespace hookline::cuda
