// PowerSGD's kernels against the same arithmetic written plainly.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cuda/low_rank.h"
#include "hooks/numerics/orthogonalization.h"
#include "tests/cuda/execution.h"

namespace hookline::testing {
namespace {

using Index = std::int64_t;

double wide(double value) { return value; }
double wide(float value) { return value; }
double wide(__half value) { return __half2float(value); }
double wide(__nv_bfloat16 value) { return __bfloat162float(value); }

/// A type of gradients; its epsilon and least number; the type of the sums of its products.
template <typename T>
struct Type;
template <>
struct Type<double> {
  static constexpr cuda::Real real = cuda::Real::float64;
  static constexpr double epsilon = 0x1p-52, least = 0x1p-1074;
  using Sum = double;
  static double round(double value) { return value; }
};
template <>
struct Type<float> {
  static constexpr cuda::Real real = cuda::Real::float32;
  static constexpr double epsilon = 0x1p-23, least = 0x1p-149;
  using Sum = float;
  static float round(double value) { return static_cast<float>(value); }
};
template <>
struct Type<__half> {
  static constexpr cuda::Real real = cuda::Real::float16;
  static constexpr double epsilon = 0x1p-10, least = 0x1p-24;
  using Sum = float;
  static __half round(double value) { return __double2half(value); }
};
template <>
struct Type<__nv_bfloat16> {
  static constexpr cuda::Real real = cuda::Real::bfloat16;
  static constexpr double epsilon = 0x1p-7, least = 0x1p-133;
  using Sum = float;
  static __nv_bfloat16 round(double value) { return __double2bfloat16(value); }
};

template <typename T>
std::vector<T> random(Index count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<T> values;
  for (Index i = 0; i < count; ++i) values.push_back(Type<T>::round(normal(generator)));
  return values;
}

template <typename T>
std::vector<double> widened(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T& value : values) result.push_back(wide(value));
  return result;
}

template <typename T>
std::vector<unsigned char> bytes_of(const std::vector<T>& values) {
  std::vector<unsigned char> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// The first place where they differ by more than rounding to T, plus `tolerance`; empty if there is none.
template <typename T>
std::string difference(const std::vector<T>& actual, const std::vector<double>& expected, double tolerance) {
  if (actual.size() != expected.size()) return "sizes differ";
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double a = wide(actual[i]), e = expected[i];
    const double most = 0.51 * Type<T>::epsilon * std::abs(e) + Type<T>::least + tolerance;
    if (std::isnan(a) != std::isnan(e) || std::abs(a - e) > most)
      return "at " + std::to_string(i) + ": " + std::to_string(a) + " instead of " + std::to_string(e);
  }
  return "";
}

// --- orthogonalize ------------------------------------------------------------------------------------------------

struct Options {
  double epsilon = 0;
  std::optional<std::uint64_t> redraw_seed;
};

template <typename T>
Orthogonalization rule_of(Index rank, const Options& options) {
  return orthogonalization_of(rank, sizeof(T), Type<T>::epsilon, options.epsilon);
}

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
  const Orthogonalization rule = rule_of<T>(rank, options);
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

template <typename T>
std::vector<T> orthogonalized(const std::vector<T>& factor, Index rank, Index n,
                              const Options& options = {}) {
  const Orthogonalization rule = rule_of<T>(rank, options);
  DeviceArray<T> array(factor);
  DeviceArray<double> basis(std::vector<double>(factor.size(), std::nan("")));
  check(cuda::orthogonalize(Type<T>::real, array.data(), basis.data(), rank, n, rule.epsilon, rule.passes,
                            rule.precision, options.redraw_seed.has_value(), options.redraw_seed.value_or(0),
                            nullptr));
  return array.values();
}

/// Its result in each order of threads, which must be that of plain arithmetic.
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
class LowRankKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_run_kernels()) GTEST_SKIP() << "no GPU here";
  }
};

struct Names {
  template <typename T>
  static std::string GetName(int i) {
    return std::vector<std::string>{"float64", "float32", "float16", "bfloat16"}[i];
  }
};
using Types = ::testing::Types<double, float, __half, __nv_bfloat16>;
TYPED_TEST_SUITE(LowRankKernels, Types, Names);

TYPED_TEST(LowRankKernels, OrthogonalizesAsPlainArithmeticDoes) {
  for (const Index n : {1, 31, 32, 33, 1023, 1024, 1025, 5000}) {
    for (Index rank = 1; rank <= 9; ++rank) {
      const auto factor = random<TypeParam>(rank * n, 7);
      const auto result = orthogonalized(factor, rank, n);
      EXPECT_EQ(difference(result, plainly_orthogonal(factor, rank, n, {}), 1e-12), "")
          << rank << " of " << n;
    }
  }
  for (const Index n : {33, 1023, 5000})
    for (const Index rank : {1, 3, 9}) expect_orthogonalized(random<TypeParam>(rank * n, 8), rank, n);
}

TYPED_TEST(LowRankKernels, AddsEpsilonToNorms) {
  for (const double epsilon : {1e-8, 0.5})
    for (const Index n : {5, 1500})
      for (const Index rank : {1, 2, 4})
        expect_orthogonalized(random<TypeParam>(rank * n, 9), rank, n, {epsilon, {}});
  const auto whole = orthogonalized(random<TypeParam>(2 * 40, 9), 2, 40);
  const auto shorter = orthogonalized(random<TypeParam>(2 * 40, 9), 2, 40, {0.5, {}});
  EXPECT_GT(std::abs(wide(whole[0])), std::abs(wide(shorter[0])));
}

/// Of 5 vectors the second is zero and the fourth a multiple of the first.
template <typename T>
std::vector<T> with_dependent_vectors(Index n) {
  auto factor = random<T>(5 * n, 10);
  for (Index i = 0; i < n; ++i) {
    factor[n + i] = Type<T>::round(0);
    factor[3 * n + i] = Type<T>::round(-2 * wide(factor[i]));
  }
  return factor;
}

TYPED_TEST(LowRankKernels, MakesDependentVectorsZero) {
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

TYPED_TEST(LowRankKernels, DrawsDependentVectorsAnewFromTheSeed) {
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

TYPED_TEST(LowRankKernels, MakesVectorsZeroThatAreTooManyForTheirLength) {
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

TYPED_TEST(LowRankKernels, PassesNaNAndInfinityOn) {
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

TYPED_TEST(LowRankKernels, MakesVeryLongAndVeryShortVectorsUnitVectors) {
  auto factor = random<TypeParam>(2 * 50, 13);
  for (std::size_t i = 0; i < 50; ++i) {
    factor[i] = Type<TypeParam>::round(wide(factor[i]) * (sizeof(TypeParam) == 2 ? 1e-4 : 1e-30));
    factor[50 + i] = Type<TypeParam>::round(wide(factor[50 + i]) * (sizeof(TypeParam) == 2 ? 1e4 : 1e30));
  }
  const auto result = expect_orthogonalized(factor, 2, 50);
  for (const std::size_t first : {0, 50})
    EXPECT_NEAR(dot(&result[first], &result[first], 50), 1, 2 * Type<TypeParam>::epsilon + 1e-12);
}

// --- reconstruct --------------------------------------------------------------------------------------------------

template <typename T>
struct Product {
  std::vector<T> matrix, rest;
  bool operator==(const Product& other) const {
    return bytes_of(matrix) == bytes_of(other.matrix) && bytes_of(rest) == bytes_of(other.rest);
  }
};

template <typename T>
Product<T> reconstructed(const std::vector<T>& p, const std::vector<T>& q, const std::vector<T>& rest,
                         Index rank, Index n, Index m) {
  DeviceArray<T> p_array(p), q_array(q), rest_array(rest);
  DeviceArray<T> matrix(std::vector<T>(n * m, Type<T>::round(std::nan(""))));
  check(cuda::reconstruct(Type<T>::real, p_array.data(), q_array.data(), matrix.data(),
                          rest.empty() ? nullptr : rest_array.data(), rank, n, m, nullptr));
  return {matrix.values(), rest_array.values()};
}

/// The kernel's own arithmetic. A GPU fuses products with sums, and rounds once less.
template <typename T>
void expect_reconstructed(Index rank, Index n, Index m, bool with_rest) {
  using Sum = typename Type<T>::Sum;
  const auto p = random<T>(rank * n, 14), q = random<T>(rank * m, 15);
  const auto rest = random<T>(with_rest ? n * m : 0, 16);
  const Product<T> actual = reconstructed(p, q, rest, rank, n, m);
  Product<T> expected;
  double largest = 1;
  for (Index row = 0; row < n; ++row) {
    for (Index column = 0; column < m; ++column) {
      Sum sum = 0;
      for (Index k = 0; k < rank; ++k)
        sum += static_cast<Sum>(wide(p[k * n + row])) * static_cast<Sum>(wide(q[k * m + column]));
      expected.matrix.push_back(Type<T>::round(sum));
      largest = std::max<double>(largest, std::abs(sum));
      if (with_rest)
        expected.rest.push_back(Type<T>::round(static_cast<Sum>(wide(rest[row * m + column])) -
                                               static_cast<Sum>(wide(expected.matrix.back()))));
    }
  }
  const std::string shape =
      std::to_string(n) + " by " + std::to_string(m) + " of rank " + std::to_string(rank);
  if (kOnGpu) {
    const double tolerance = 2 * Type<T>::epsilon * static_cast<double>(rank + 1) * largest;
    EXPECT_EQ(difference(actual.matrix, widened(expected.matrix), tolerance), "") << shape;
    EXPECT_EQ(difference(actual.rest, widened(expected.rest), 2 * tolerance), "") << shape;
  } else {
    EXPECT_TRUE(actual == expected) << shape;
  }
  if (n * m > 100'000) return;
  EXPECT_TRUE(in_each_order([&] { return reconstructed(p, q, rest, rank, n, m); }) == actual) << shape;
}

TYPED_TEST(LowRankKernels, ReconstructsAsPlainArithmeticDoes) {
  for (const bool with_rest : {false, true}) {
    for (const auto& [n, m] :
         {std::pair<Index, Index>(1, 1), {5, 3}, {1, 256}, {3, 255}, {33, 257}, {40, 1030}})
      for (const Index rank : {0, 1, 2, 9}) expect_reconstructed<TypeParam>(rank, n, m, with_rest);
  }
}

TYPED_TEST(LowRankKernels, ReconstructsNothingOfAnEmptyMatrix) {
  const auto factor = random<TypeParam>(2 * 7, 14);
  EXPECT_EQ(reconstructed<TypeParam>({}, factor, {}, 2, 0, 7).matrix.size(), 0U);
  EXPECT_EQ(reconstructed<TypeParam>(factor, {}, {}, 2, 7, 0).matrix.size(), 0U);
}

TEST(LowRankKernels, ReconstructMoreRowsThanAGridHas) {
  if (!can_run_kernels()) GTEST_SKIP() << "no GPU here";
  expect_reconstructed<__half>(2, 65535 + 3, 2, true);
}

}  // namespace
}  // namespace hookline::testing
