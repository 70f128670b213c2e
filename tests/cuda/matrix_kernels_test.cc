// Compares PowerSGD's matrix kernels with the same arithmetic in plain C++.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tests/cuda/kernel_types.h"

namespace hookline::testing {
namespace {

/// A bucket and a rank's state for it: values of T, with a gap before each matrix and factor. A gap of 3
/// rules out vectorized access; a gap of 4 allows it where the sizes are multiples of 4 too.
template <typename T>
struct Bucket {
  Matrices matrices;
  std::vector<T> p, q, sum, bucket;

  /// `shapes` holds n, m and the rank of each matrix. The bucket ends `missing` elements before the last
  /// matrix's end.
  explicit Bucket(const std::vector<std::array<Index, 3>>& shapes, Index missing = 0, Index gap = 3) {
    CompressedMatrix next{gap, 0, 0, 0, gap, gap};
    for (const auto& [n, m, rank] : shapes) {
      next = {next.offset, n, m, rank, next.p_offset, next.q_offset};
      matrices.push_back(next);
      next.offset += n * m + gap;
      next.p_offset += n * rank + gap;
      next.q_offset += m * rank + gap;
    }
    p = random<T>(next.p_offset - gap, 1);
    q = random<T>(next.q_offset - gap, 2);
    sum = random<T>(next.offset - gap, 3);
    bucket = random<T>(next.offset - gap - missing, 4);
  }
};

/// An element of P·Qᵀ, summed in the kernel's order. A GPU fuses multiply and add, and so rounds once less.
template <typename T>
T product_at(const Bucket<T>& b, const CompressedMatrix& c, Index row, Index column) {
  using Sum = typename Type<T>::Sum;
  Sum sum = 0;
  for (Index k = 0; k < c.rank; ++k)
    sum += static_cast<Sum>(wide(b.p[c.p_offset + k * c.n + row])) *
           static_cast<Sum>(wide(b.q[c.q_offset + k * c.m + column]));
  return Type<T>::round(sum);
}

template <typename T>
T difference_of(T a, T b) {
  using Sum = typename Type<T>::Sum;
  return Type<T>::round(static_cast<Sum>(wide(a)) - static_cast<Sum>(wide(b)));
}

template <typename T>
T sum_of(T a, T b) {
  using Sum = typename Type<T>::Sum;
  return Type<T>::round(static_cast<Sum>(wide(a)) + static_cast<Sum>(wide(b)));
}

template <typename T, typename Run>
void for_each_element(const Bucket<T>& b, Run run) {
  for (const CompressedMatrix& c : b.matrices)
    for (Index row = 0; row < c.n; ++row)
      for (Index column = 0; column < c.m; ++column) run(c, row, column, c.offset + row * c.m + column);
}

/// Expects the same bits from fibers. On a GPU, a product may differ by one rounding.
template <typename T>
void expect_same(const std::vector<T>& actual, const std::vector<T>& expected, const std::string& what) {
  if (!kOnGpu) {
    EXPECT_TRUE(bytes_of(actual) == bytes_of(expected))
        << what << ": " << difference(actual, widened(expected), 0);
    return;
  }
  double largest = 1;
  for (const double value : widened(expected)) largest = std::max(largest, std::abs(value));
  EXPECT_EQ(difference(actual, widened(expected), 16 * Type<T>::epsilon * largest), "") << what;
}

template <typename T>
std::vector<T> reconstructed(const Bucket<T>& b) {
  DeviceArray<T> p(b.p), q(b.q), bucket(b.bucket);
  check(cuda::reconstruct(Type<T>::real, b.matrices, p.data(), q.data(), bucket.data(), b.bucket.size(),
                          nullptr));
  return bucket.values();
}

template <typename T>
std::vector<T> accumulated(const Bucket<T>& b, bool subtract, bool add) {
  DeviceArray<T> p(b.p), q(b.q), sum(b.sum), bucket(b.bucket);
  check(cuda::accumulate(Type<T>::real, b.matrices, sum.data(), subtract ? p.data() : nullptr,
                         subtract ? q.data() : nullptr, add ? bucket.data() : nullptr,
                         add ? b.bucket.size() : 0, nullptr));
  return sum.values();
}

template <typename T>
void expect_reconstructed(const Bucket<T>& b, const std::string& what) {
  std::vector<T> expected = b.bucket;
  for_each_element(b, [&](const CompressedMatrix& c, Index row, Index column, std::size_t at) {
    if (at < expected.size()) expected[at] = product_at(b, c, row, column);
  });
  const auto actual = reconstructed(b);
  expect_same(actual, expected, what);
  EXPECT_TRUE(in_each_order([&] { return bytes_of(reconstructed(b)); }) == bytes_of(actual)) << what;
}

template <typename T>
void expect_accumulated(const Bucket<T>& b, const std::string& what) {
  for (const bool subtract : {false, true}) {
    for (const bool add : {false, true}) {
      std::vector<T> expected = b.sum;
      for_each_element(b, [&](const CompressedMatrix& c, Index row, Index column, std::size_t at) {
        if (subtract) expected[at] = difference_of(expected[at], product_at(b, c, row, column));
        if (add && at < b.bucket.size()) expected[at] = sum_of(expected[at], b.bucket[at]);
      });
      const auto actual = accumulated(b, subtract, add);
      expect_same(actual, expected, what + (subtract ? ", less P·Q" : "") + (add ? ", and the bucket" : ""));
      EXPECT_TRUE(in_each_order([&] { return bytes_of(accumulated(b, subtract, add)); }) == bytes_of(actual))
          << what;
    }
  }
}

template <typename T>
using MatrixKernels = KernelTest<T>;
TYPED_TEST_SUITE(MatrixKernels, Types);

const std::vector<std::array<Index, 2>> kSizes{{1, 1},   {5, 3},   {1, 256},   {8, 255},
                                               {9, 257}, {33, 70}, {17, 1030}, {1030, 1}};

TYPED_TEST(MatrixKernels, ReconstructAsPlainArithmeticDoes) {
  for (const auto& [n, m] : kSizes)
    for (const Index rank : {0, 1, 2, 9})
      expect_reconstructed(Bucket<TypeParam>({{n, m, rank}}), std::to_string(n) + " by " + std::to_string(m) +
                                                                  " of rank " + std::to_string(rank));
}

TYPED_TEST(MatrixKernels, AccumulateAsPlainArithmeticDoes) {
  for (const auto& [n, m] : kSizes)
    for (const Index rank : {0, 1, 3})
      expect_accumulated(Bucket<TypeParam>({{n, m, rank}}),
                         std::to_string(n) + " by " + std::to_string(m) + " of rank " + std::to_string(rank));
}

/// More matrices than two launches take, some of them empty; the largest needs two tiles.
std::vector<std::array<Index, 3>> many_shapes() {
  std::vector<std::array<Index, 3>> shapes;
  for (Index i = 0; i < 150; ++i) shapes.push_back({i * 7 % 23, i * 5 % 31, i % 4});
  shapes[40] = {20, 300, 2};
  return shapes;
}

TYPED_TEST(MatrixKernels, TakeAllMatricesOfABucket) {
  const Bucket<TypeParam> bucket(many_shapes());
  expect_reconstructed(bucket, "150 matrices");
  expect_accumulated(bucket, "150 matrices");

  auto one_by_one = bucket.bucket;
  for (const CompressedMatrix& matrix : bucket.matrices) {
    Bucket<TypeParam> one = bucket;
    one.matrices = {matrix};
    one.bucket = one_by_one;
    one_by_one = reconstructed(one);
  }
  EXPECT_TRUE(bytes_of(reconstructed(bucket)) == bytes_of(one_by_one));
}

#ifndef ON_GPU
TYPED_TEST(MatrixKernels, TakeOneLaunchFor64Matrices) {
  for (const auto& [matrices, launches] : {std::pair(0, 0U), {1, 1U}, {64, 1U}, {65, 2U}}) {
    const unsigned before = cuda_on_cpu::launches;
    reconstructed(Bucket<TypeParam>(std::vector<std::array<Index, 3>>(matrices, {4, 3, 1})));
    EXPECT_EQ(cuda_on_cpu::launches - before, launches) << matrices;
  }
}
#endif

TYPED_TEST(MatrixKernels, VectorizeAccessWhereAlignmentAllows) {
  for (const auto& [n, m] : std::vector<std::array<Index, 2>>{{1, 4}, {33, 12}, {7, 260}, {70, 516}}) {
    for (const Index missing : {0, 1, 6}) {
      const Bucket<TypeParam> bucket({{n, m, 3}, {n, m, 1}}, missing, 4);
      const std::string what =
          std::to_string(n) + " by " + std::to_string(m) + ", " + std::to_string(missing) + " missing";
      expect_reconstructed(bucket, what);
      expect_accumulated(bucket, what);
    }
  }
}

TYPED_TEST(MatrixKernels, TakeABucketThatEndsBeforeItsLastMatrix) {
  for (const Index missing : {1, 35, 6 * 7, 6 * 7 + 3 + 10}) {  // the last one cuts into the matrix before
    const Bucket<TypeParam> bucket({{3, 4, 1}, {4, 5, 2}, {6, 7, 2}}, missing);
    expect_reconstructed(bucket, std::to_string(missing) + " missing");
    expect_accumulated(bucket, std::to_string(missing) + " missing");
  }
}

TYPED_TEST(MatrixKernels, DoNothingWithoutElements) {
  expect_reconstructed(Bucket<TypeParam>({}), "no matrix");
  expect_reconstructed(Bucket<TypeParam>({{0, 7, 2}, {7, 0, 2}}), "empty matrices");
  expect_accumulated(Bucket<TypeParam>({{0, 7, 2}, {7, 0, 2}}), "empty matrices");
}

TEST(MatrixKernel, HandlesMoreRowsThanTheGridLimit) {
  if (!can_run_kernels()) GTEST_SKIP() << "no GPU here";
  expect_reconstructed(Bucket<__half>({{65535 + 3, 2, 2}}), "65538 rows");
}

}  // namespace
}  // namespace hookline::testing
