#include "hooks/numerics/low_rank.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "hooks/numerics/cuda_kernels.h"
#include "hooks/numerics/in_parallel.h"
#include "hooks/numerics/orthogonalization.h"

namespace hookline {
namespace {

/// One matrix in the first pass of a step: sum [n, m] = (sum − p_before·q_beforeᵀ) + added, each difference
/// and sum rounded to T, and p = sum·q. Without p_before nothing is subtracted, without `added` nothing
/// added, without p nothing multiplied.
template <typename T>
struct Accumulation {
  std::int64_t n, m, rank;
  T* sum;
  const T* added;
  std::int64_t added_count;  // elements of `added`; those behind them are zero
  const Sum<T>*p_before, *q_before, *q;
  T* p;
};

}  // namespace
}  // namespace hookline

#define HOOKLINE_KERNELS "hooks/numerics/low_rank_kernels.inc"
#include "hooks/numerics/both_forms.inc"

namespace hookline {
namespace {

// The fewest elements that are worth a thread: of matrices, and of factors, which take longer per element.
constexpr std::int64_t kMatrixGrain = 1 << 16, kFactorGrain = 1 << 13;

std::int64_t elements_of(const CompressedMatrix& c) { return c.n * c.m; }
std::int64_t elements_of(const Factor& f) { return f.rank * f.length; }

/// Divides the elements of all items among threads: calls run(index of item, begin, end).
template <typename Items, typename Run>
void share_out(const Items& items, std::int64_t grain, Run run) {
  std::int64_t total = 0;
  for (const auto& item : items) total += elements_of(item);
  in_parallel(total, grain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t start = 0;
    for (std::size_t i = 0; i < items.size() && start < end; ++i) {
      const std::int64_t here = elements_of(items[i]);
      const std::int64_t from = std::max<std::int64_t>(begin - start, 0), to = std::min(end - start, here);
      if (from < to) run(i, from, to);
      start += here;
    }
  });
}

/// Converts a number of elements to units, rounding up, so that neighbouring ranges of elements become
/// neighbouring ranges of units.
std::int64_t units_of(std::int64_t elements, std::int64_t unit) { return (elements + unit - 1) / unit; }

/// Calls run(matrix, first row, the row after the last).
template <typename Run>
void share_out_rows(const Matrices& matrices, Run run) {
  share_out(matrices, kMatrixGrain, [&](std::size_t i, std::int64_t begin, std::int64_t end) {
    const CompressedMatrix& c = matrices[i];
    run(c, units_of(begin, c.m), units_of(end, c.m));
  });
}

/// Calls run(matrix, first column, the column after the last).
template <typename Run>
void share_out_columns(const Matrices& matrices, Run run) {
  constexpr std::int64_t kColumns = 16;  // one or two cache lines, which two threads should not both write
  share_out(matrices, kMatrixGrain, [&](std::size_t i, std::int64_t begin, std::int64_t end) {
    const CompressedMatrix& c = matrices[i];
    const std::int64_t unit = c.n * kColumns;
    run(c, std::min(units_of(begin, unit) * kColumns, c.m), std::min(units_of(end, unit) * kColumns, c.m));
  });
}

/// The tensor in the type of its sums: itself, or a copy in this thread's memory.
template <typename T, plain::Purpose purpose>
const Sum<T>* widened(const at::Tensor& tensor, Kernels kernels) {
  const T* values = tensor.const_data_ptr<T>();
  if constexpr (std::is_same_v<T, Sum<T>>) {
    return values;
  } else {
    Sum<T>* copy = plain::scratch<Sum<T>, purpose>(tensor.numel());
    (is_wide(kernels) ? wide::widen<T> : plain::widen<T>)(values, copy, tensor.numel());
    return copy;
  }
}

/// Matrices of one size and rank at equal distances in memory, with factors at equal distances, too. On a GPU
/// they are multiplied in one call, since every call costs its launch.
struct Batch {
  CompressedMatrix first;
  std::int64_t count = 1, step = 0, p_step = 0, q_step = 0;  // if count > 1: the distances between them

  bool takes(const CompressedMatrix& c) const {
    if (c.n != first.n || c.m != first.m || c.rank != first.rank) return false;
    if (count == 1)
      return c.offset > first.offset && c.p_offset > first.p_offset && c.q_offset > first.q_offset;
    return c.offset == first.offset + count * step && c.p_offset == first.p_offset + count * p_step &&
           c.q_offset == first.q_offset + count * q_step;
  }

  void add(const CompressedMatrix& c) {
    if (count++ > 1) return;
    step = c.offset - first.offset;
    p_step = c.p_offset - first.p_offset;
    q_step = c.q_offset - first.q_offset;
  }

  at::Tensor matrices_of(const at::Tensor& bucket) const {
    return part_of(bucket, first.offset, step, first.n, first.m);
  }
  at::Tensor p_of(const at::Tensor& p) const {
    return part_of(p, first.p_offset, p_step, first.rank, first.n);
  }
  at::Tensor q_of(const at::Tensor& q) const {
    return part_of(q, first.q_offset, q_step, first.rank, first.m);
  }

 private:
  at::Tensor part_of(const at::Tensor& whole, std::int64_t offset, std::int64_t distance, std::int64_t rows,
                     std::int64_t columns) const {
    return whole.as_strided({count, rows, columns}, {distance, columns, 1}, whole.storage_offset() + offset);
  }
};

std::vector<Batch> batches_of(const Matrices& matrices) {
  std::vector<Batch> batches;
  for (const CompressedMatrix& c : matrices) {
    if (!batches.empty() && batches.back().takes(c)) {
      batches.back().add(c);
    } else {
      batches.push_back({c});
    }
  }
  return batches;
}

/// product = a·b, for each matrix of a batch.
void multiply_on_gpu(at::Tensor product, const at::Tensor& a, const at::Tensor& b) {
  if (product.size(0) > 1) {
    at::bmm_out(product, a, b);
  } else {
    product = product[0];
    at::mm_out(product, a[0], b[0]);
  }
}

/// Calls `run` with a null pointer of the tensor's type.
template <typename Run>
void with_type(const at::Tensor& tensor, Run run) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, tensor.scalar_type(), "power_sgd",
                                  [&] { run(static_cast<scalar_t*>(nullptr)); });
}

template <typename T>
void accumulate_on_cpu(const Matrices& matrices, const at::Tensor& sum, const FactorPair& before,
                       const at::Tensor& bucket, const FactorPair& now, Kernels kernels) {
  using plain::Purpose;
  Accumulation<T> whole{};
  // `sum` is written only if something is added or subtracted.
  whole.sum = const_cast<T*>(sum.const_data_ptr<T>());
  if (bucket.defined()) whole.added = bucket.const_data_ptr<T>();
  if (before.p.defined()) {
    whole.p_before = widened<T, Purpose::p_before>(before.p, kernels);
    whole.q_before = widened<T, Purpose::q_before>(before.q, kernels);
  }
  if (now.p.defined()) {
    whole.q = widened<T, Purpose::q>(now.q, kernels);
    whole.p = now.p.mutable_data_ptr<T>();
  }
  const auto at = [](auto* values, std::int64_t offset) { return values ? values + offset : nullptr; };
  const auto run = is_wide(kernels) ? wide::accumulate_typed<T> : plain::accumulate_typed<T>;
  share_out_rows(matrices, [&](const CompressedMatrix& c, std::int64_t first, std::int64_t last) {
    run({.n = c.n,
         .m = c.m,
         .rank = c.rank,
         .sum = whole.sum + c.offset,
         .added = at(whole.added, c.offset),
         .added_count = bucket.defined() ? bucket.numel() - c.offset : 0,
         .p_before = at(whole.p_before, c.p_offset),
         .q_before = at(whole.q_before, c.q_offset),
         .q = at(whole.q, c.q_offset),
         .p = at(whole.p, c.p_offset)},
        first, last);
  });
}

}  // namespace

void accumulate(const Matrices& matrices, const at::Tensor& sum, const FactorPair& before,
                const at::Tensor& bucket, Kernels kernels) {
  if (sum.is_cuda()) return cuda_kernels().accumulate(matrices, sum, before.p, before.q, bucket);
  with_type(sum, [&]<typename T>(T*) { accumulate_on_cpu<T>(matrices, sum, before, bucket, {}, kernels); });
}

void accumulate_and_multiply(const Matrices& matrices, const at::Tensor& sum, const FactorPair& before,
                             const at::Tensor& bucket, const FactorPair& now, Kernels kernels) {
  if (sum.is_cuda()) {
    if (before.p.defined() || bucket.defined()) accumulate(matrices, sum, before, bucket);
    for (const Batch& batch : batches_of(matrices))
      multiply_on_gpu(batch.p_of(now.p), batch.q_of(now.q), batch.matrices_of(sum).transpose(1, 2));
    return;
  }
  with_type(sum, [&]<typename T>(T*) { accumulate_on_cpu<T>(matrices, sum, before, bucket, now, kernels); });
}

void multiply_transposed(const Matrices& matrices, const at::Tensor& bucket, const FactorPair& factors,
                         Kernels kernels) {
  if (bucket.is_cuda()) {
    for (const Batch& batch : batches_of(matrices))
      multiply_on_gpu(batch.q_of(factors.q), batch.p_of(factors.p), batch.matrices_of(bucket));
    return;
  }
  with_type(bucket, [&]<typename T>(T*) {
    const T* values = bucket.const_data_ptr<T>();
    const Sum<T>* p = widened<T, plain::Purpose::p>(factors.p, kernels);
    T* q = factors.q.mutable_data_ptr<T>();
    Sum<T>* sums;
    if constexpr (std::is_same_v<T, Sum<T>>) {
      sums = q;
    } else {
      sums = plain::scratch<Sum<T>, plain::Purpose::sums>(factors.q.numel());
    }
    const auto run =
        is_wide(kernels) ? wide::multiply_transposed_typed<T> : plain::multiply_transposed_typed<T>;
    share_out_columns(matrices, [&](const CompressedMatrix& c, std::int64_t first, std::int64_t last) {
      run(values + c.offset, p + c.p_offset, q + c.q_offset, sums + c.q_offset, c.n, c.m, c.rank, first,
          last);
    });
  });
}

void reconstruct(const Matrices& matrices, const FactorPair& factors, const at::Tensor& bucket,
                 Kernels kernels) {
  if (bucket.is_cuda()) return cuda_kernels().reconstruct(matrices, factors.p, factors.q, bucket);
  with_type(bucket, [&]<typename T>(T*) {
    const Sum<T>* p = widened<T, plain::Purpose::p>(factors.p, kernels);
    const Sum<T>* q = widened<T, plain::Purpose::q>(factors.q, kernels);
    T* out = bucket.mutable_data_ptr<T>();
    const auto run = is_wide(kernels) ? wide::reconstruct_typed<T> : plain::reconstruct_typed<T>;
    share_out_rows(matrices, [&](const CompressedMatrix& c, std::int64_t first, std::int64_t last) {
      run(p + c.p_offset, q + c.q_offset, out + c.offset, bucket.numel() - c.offset, c.n, c.m, c.rank, first,
          last);
    });
  });
}

void add_plain(const PlainSegments& segments, const at::Tensor& sum, const at::Tensor& bucket,
               const at::Tensor& p) {
  if (bucket.is_cuda()) {
    for (const PlainSegment& s : segments) {
      at::Tensor part = (sum.defined() ? sum : bucket).narrow(0, s.offset, s.numel);
      if (sum.defined()) part.add_(bucket.narrow(0, s.offset, s.numel));
      p.narrow(0, s.p_offset, s.numel).copy_(part);
    }
    return;
  }
  with_type(bucket, [&]<typename T>(T*) {
    const auto run = is_wide(Kernels::best) ? wide::add_and_copy_typed<T> : plain::add_and_copy_typed<T>;
    const T* added = bucket.const_data_ptr<T>();
    T *sums = sum.defined() ? sum.mutable_data_ptr<T>() : nullptr, *copy = p.mutable_data_ptr<T>();
    for (const PlainSegment& s : segments)
      run(sums ? sums + s.offset : nullptr, added + s.offset, copy + s.p_offset, s.numel);
  });
}

void take_plain(const PlainSegments& segments, const at::Tensor& p, const at::Tensor& bucket,
                const at::Tensor& sum) {
  if (bucket.is_cuda()) {
    for (const PlainSegment& s : segments) {
      const at::Tensor part = p.narrow(0, s.p_offset, s.numel);
      bucket.narrow(0, s.offset, s.numel).copy_(part);
      if (sum.defined()) sum.narrow(0, s.offset, s.numel).sub_(part);
    }
    return;
  }
  with_type(bucket, [&]<typename T>(T*) {
    const auto run =
        is_wide(Kernels::best) ? wide::copy_and_subtract_typed<T> : plain::copy_and_subtract_typed<T>;
    const T* values = p.const_data_ptr<T>();
    T *copy = bucket.mutable_data_ptr<T>(), *rest = sum.defined() ? sum.mutable_data_ptr<T>() : nullptr;
    for (const PlainSegment& s : segments)
      run(values + s.p_offset, copy + s.offset, rest ? rest + s.offset : nullptr, s.numel);
  });
}

bool is_finite(const at::Tensor& tensor) {
  bool finite = false;
  with_type(tensor, [&]<typename T>(T*) {
    const auto run = is_wide(Kernels::best) ? wide::is_finite_typed<T> : plain::is_finite_typed<T>;
    finite = run(tensor.const_data_ptr<T>(), tensor.numel());
  });
  return finite;
}

std::vector<DependentVector> orthogonalize(const at::Tensor& buffer, const Factors& factors, double epsilon) {
  std::vector<DependentVector> dependent;
  if (buffer.is_cuda()) {
    cuda_kernels().orthogonalize(buffer, factors, epsilon, {});
    return dependent;
  }
  std::mutex mutex;  // guards `dependent`
  with_type(buffer, [&]<typename T>(T*) {
    T* values = buffer.mutable_data_ptr<T>();
    const auto run = is_wide(Kernels::best) ? wide::orthogonalize_typed<T> : plain::orthogonalize_typed<T>;
    share_out(factors, kFactorGrain, [&](std::size_t i, std::int64_t begin, std::int64_t) {
      if (begin != 0) return;  // the thread with its first element does it all
      const Factor& f = factors[i];
      const auto rule = orthogonalization_of(f.rank, sizeof(T),
                                             static_cast<double>(std::numeric_limits<T>::epsilon()), epsilon);
      run(values + f.offset, f.rank, f.length, rule, [&](std::int64_t vector) {
        const std::lock_guard lock(mutex);
        dependent.push_back({i, vector});
      });
    });
  });
  std::sort(dependent.begin(), dependent.end(), [](const DependentVector& a, const DependentVector& b) {
    return std::pair(a.factor, a.vector) < std::pair(b.factor, b.vector);
  });
  return dependent;
}

}  // namespace hookline
