// Compares PowerSGD's orthogonalization kernel with the same arithmetic in plain C++.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hooks/numerics/orthogonalization.h"
#include "tests/cuda/kernel_types.h"
#include "tests/support/sanitized.h"

namespace hookline::testing {
namespace {

struct Options {
  double epsilon = 0;
  std::optional<std::uint64_t> redraw_seed;
};

double drawn(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t bits = seed + (counter + 1) * 0x9E3779B97F4A7C15u;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  return static_cast<double>((bits ^ (bits >> 31)) >> 11) * 0x1p-52 - 1;
}

double dot(const double* a, const double* b, Index n) {
  double sum = 0;
  for (Index i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

template <typename T>
std::vector<double> plainly_orthogonal(const std::vector<T>& factor, Index rank, Index n,
                                       const Options& options) {
  const auto rule = orthogonalization_of(rank, sizeof(T), Type<T>::epsilon, options.epsilon);
  std::vector<double> vectors = widened(factor);
  for (Index k = 0; k < rank; ++k) {
    double* vector = vectors.data() + k * n;
    for (int attempt = 0; attempt < 4; ++attempt) {
      const double length_before = std::sqrt(dot(vector, vector, n));
      for (int pass = 0; pass < rule.passes; ++pass) {
        for (Index earlier = 0; earlier < k; ++earlier) {
          const double* direction = vectors.data() + earlier * n;
          const double projection = dot(direction, vector, n);
          for (Index i = 0; i < n; ++i) vector[i] -= projection * direction[i];
        }
      }
      const double length = std::sqrt(dot(vector, vector, n));
      if (!(length <= rule.precision * length_before) || std::isinf(length)) {
        for (Index i = 0; i < n; ++i) vector[i] /= length + rule.epsilon;
        break;
      }
      const bool again = options.redraw_seed && k < n && attempt < 3;
      for (Index i = 0; i < n; ++i)
        vector[i] =
            again ? drawn(*options.redraw_seed, static_cast<std::uint64_t>((attempt * rank + k) * n + i)) : 0;
      if (!again) break;
    }
  }
  return vectors;
}

/// `buffer` after one kernel call for all `factors`.
template <typename T>
std::vector<T> all_orthogonalized(const std::vector<T>& buffer, const Factors& factors, double epsilon,
                                  const std::vector<std::uint64_t>& redraw_seeds) {
  std::size_t numel = 0;
  for (const Factor& factor : factors) numel += factor.rank * factor.length;
  DeviceArray<T> array(buffer);
  DeviceArray<double> basis(std::vector<double>(numel, std::nan("")));
  check(cuda::orthogonalize(Type<T>::real, array.data(), factors, epsilon, redraw_seeds, basis.data(),
                            nullptr));
  return array.values();
}

template <typename T>
std::vector<T> orthogonalized(const std::vector<T>& factor, Index rank, Index n,
                              const Options& options = {}) {
  std::vector<std::uint64_t> seeds;
  if (options.redraw_seed) seeds.push_back(*options.redraw_seed);
  return all_orthogonalized(factor, {{0, rank, n}}, options.epsilon, seeds);
}

/// The kernel's result, which must equal plain arithmetic for every thread order.
template <typename T>
std::vector<double> expect_orthogonalized(const std::vector<T>& factor, Index rank, Index n,
                                          const Options& options = {}) {
  const auto result = orthogonalized(factor, rank, n, options);
  EXPECT_EQ(difference(result, plainly_orthogonal(factor, rank, n, options), 1e-12), "")
      << rank << " of " << n;
  in_each_order([&] { return bytes_of(orthogonalized(factor, rank, n, options)); });
  return widened(result);
}

template <typename T>
using OrthogonalizeKernel = KernelTest<T>;
TYPED_TEST_SUITE(OrthogonalizeKernel, Types);

TYPED_TEST(OrthogonalizeKernel, OrthogonalizesAsPlainArithmeticDoes) {
  for (const Index n : {1, 31, 32, 33, 1023, 1024, 1025, 5000}) {
    for (Index rank = 1; rank <= 9; rank += kSanitized ? 4 : 1) {
      const auto factor = random<TypeParam>(rank * n, 7);
      const auto result = orthogonalized(factor, rank, n);
      EXPECT_EQ(difference(result, plainly_orthogonal(factor, rank, n, {}), 1e-12), "")
          << rank << " of " << n;
    }
  }
  for (const Index n : {33, 1023, 5000})
    for (const Index rank : {1, 3, 9}) expect_orthogonalized(random<TypeParam>(rank * n, 8), rank, n);
}

TYPED_TEST(OrthogonalizeKernel, AddsEpsilonToNorms) {
  for (const double epsilon : {1e-8, 0.5})
    for (const Index n : {5, 1500})
      for (const Index rank : {1, 2, 4})
        expect_orthogonalized(random<TypeParam>(rank * n, 9), rank, n, {epsilon, {}});
  const auto whole = orthogonalized(random<TypeParam>(2 * 40, 9), 2, 40);
  const auto shorter = orthogonalized(random<TypeParam>(2 * 40, 9), 2, 40, {0.5, {}});
  EXPECT_GT(std::abs(wide(whole[0])), std::abs(wide(shorter[0])));
}

/// Five vectors: the second is zero, and the fourth a multiple of the first.
template <typename T>
std::vector<T> with_dependent_vectors(Index n) {
  auto factor = random<T>(5 * n, 10);
  for (Index i = 0; i < n; ++i) {
    factor[n + i] = Type<T>::round(0);
    factor[3 * n + i] = Type<T>::round(-2 * wide(factor[i]));
  }
  return factor;
}

TYPED_TEST(OrthogonalizeKernel, ZeroesDependentVectors) {
  for (const Index n : {40, 1500}) {
    const auto result = expect_orthogonalized(with_dependent_vectors<TypeParam>(n), 5, n);
    for (Index k = 0; k < 5; ++k) {
      const bool depends = k == 1 || k == 3;
      EXPECT_NEAR(dot(&result[k * n], &result[k * n], n), depends ? 0 : 1,
                  depends ? 0 : 2 * Type<TypeParam>::epsilon + 1e-12)
          << k << " of " << n;
    }
  }
}

TYPED_TEST(OrthogonalizeKernel, RedrawsDependentVectorsFromTheSeed) {
  for (const Index n : {40, 1500}) {
    const auto factor = with_dependent_vectors<TypeParam>(n);
    const auto result = expect_orthogonalized(factor, 5, n, {0, 1});
    for (Index a = 0; a < 5; ++a)
      for (Index b = 0; b <= a; ++b)
        EXPECT_NEAR(dot(&result[a * n], &result[b * n], n), a == b, 4 * Type<TypeParam>::epsilon + 1e-12)
            << a << " by " << b << " of " << n;
    const auto other = expect_orthogonalized(factor, 5, n, {0, 2});
    EXPECT_EQ(std::vector(result.begin(), result.begin() + n), std::vector(other.begin(), other.begin() + n));
    EXPECT_NE(std::vector(result.begin() + n, result.begin() + 2 * n),
              std::vector(other.begin() + n, other.begin() + 2 * n));
  }
}

TYPED_TEST(OrthogonalizeKernel, ZeroesVectorsBeyondTheDimension) {
  for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), {3}}) {
    for (const Index n : {1, 3}) {
      const auto result = expect_orthogonalized(random<TypeParam>(6 * n, 11), 6, n, {0, seed});
      for (Index k = 0; k < 6; ++k)
        EXPECT_NEAR(dot(&result[k * n], &result[k * n], n), k < n,
                    k < n ? 2 * Type<TypeParam>::epsilon + 1e-12 : 0)
            << k << " of " << n;
    }
  }
}

TYPED_TEST(OrthogonalizeKernel, PassesNaNAndInfinityOn) {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), {3}}) {
      auto factor = random<TypeParam>(3 * 1100, 12);
      factor[1100 + 1050] = Type<TypeParam>::round(bad);
      const auto result = expect_orthogonalized(factor, 3, 1100, {0, seed});
      EXPECT_FALSE(std::isnan(result[0])) << "the vector before";
      EXPECT_TRUE(std::isnan(result[1100 + 1050]));
      EXPECT_TRUE(std::isnan(result[2 * 1100])) << "the vector behind, by its projection";
    }
  }
}

TYPED_TEST(OrthogonalizeKernel, NormalizesVeryLongAndVeryShortVectors) {
  auto factor = random<TypeParam>(2 * 50, 13);
  for (std::size_t i = 0; i < 50; ++i) {
    factor[i] = Type<TypeParam>::round(wide(factor[i]) * (sizeof(TypeParam) == 2 ? 1e-4 : 1e-30));
    factor[50 + i] = Type<TypeParam>::round(wide(factor[50 + i]) * (sizeof(TypeParam) == 2 ? 1e4 : 1e30));
  }
  const auto result = expect_orthogonalized(factor, 2, 50);
  for (const std::size_t first : {0, 50})
    EXPECT_NEAR(dot(&result[first], &result[first], 50), 1, 2 * Type<TypeParam>::epsilon + 1e-12);
}

TYPED_TEST(OrthogonalizeKernel, MakesNearlyParallelVectorsOrthogonal) {
  auto factor = random<TypeParam>(2 * 1500, 17);
  for (std::size_t i = 0; i < 1500; ++i)
    factor[1500 + i] =
        Type<TypeParam>::round(wide(factor[i]) + 64 * Type<TypeParam>::epsilon * wide(factor[1500 + i]));
  const auto result = widened(orthogonalized(factor, 2, 1500));
  EXPECT_NEAR(dot(&result[0], &result[1500], 1500), 0, 2 * Type<TypeParam>::epsilon + 1e-12);
  EXPECT_NEAR(dot(&result[1500], &result[1500], 1500), 1, 2 * Type<TypeParam>::epsilon + 1e-12);
}

TYPED_TEST(OrthogonalizeKernel, OrthogonalizesAllFactorsOfABucketAsOneByOne) {
  constexpr Index kGap = 3;  // between factors lie other parts of the bucket
  for (const bool redraw : {false, true}) {
    if (kSanitized && !redraw) continue;  // one of the two is enough to check memory
    Factors factors;
    std::vector<TypeParam> buffer;
    std::vector<std::uint64_t> seeds;
    for (Index i = 0; i < 100; ++i) {  // 75 non-empty ones: more than one launch takes
      const Index rank = i % 4, n = i == 70 ? 1500 : i * 7 % 40;
      buffer.resize(buffer.size() + kGap, Type<TypeParam>::round(i));
      factors.push_back({static_cast<Index>(buffer.size()), rank, n});
      auto factor = random<TypeParam>(rank * n, 18 + i);
      if (i % 5 == 0) std::fill(factor.begin(), factor.end(), Type<TypeParam>::round(0));
      buffer.insert(buffer.end(), factor.begin(), factor.end());
      if (redraw) seeds.push_back(i);
    }
    auto expected = buffer;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const auto& [offset, rank, n] = factors[i];
      const auto first = buffer.begin() + offset;
      Options options{0.01, {}};
      if (redraw) options.redraw_seed = seeds[i];
      const auto alone = orthogonalized(std::vector(first, first + rank * n), rank, n, options);
      std::copy(alone.begin(), alone.end(), expected.begin() + offset);
    }
    const auto run = [&] { return bytes_of(all_orthogonalized(buffer, factors, 0.01, seeds)); };
#ifndef ON_GPU
    const unsigned before = cuda_on_cpu::launches;
#endif
    const auto once = run();
#ifndef ON_GPU
    EXPECT_EQ(cuda_on_cpu::launches - before, 2U);
#endif
    const auto all = redraw ? in_each_order(run) : once;
    EXPECT_TRUE(all == bytes_of(expected)) << (redraw ? "with" : "without") << " new draws";
  }
}

}  // namespace
}  // namespace hookline::testing
