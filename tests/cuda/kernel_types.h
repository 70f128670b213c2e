// Shared by tests of PowerSGD's kernels: the four gradient types, and the comparison of numbers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cuda/power_sgd_kernels.h"
#include "tests/cuda/execution.h"

namespace hookline::testing {

using Index = std::int64_t;

inline double wide(double value) { return value; }
inline double wide(float value) { return value; }
inline double wide(__half value) { return __half2float(value); }
inline double wide(__nv_bfloat16 value) { return __bfloat162float(value); }

/// Traits of a gradient type: its epsilon, its smallest number, and the type in which its products are
/// summed.
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

/// Describes the first element that differs by more than rounding to T plus `tolerance`; empty if there is
/// none.
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

/// Base class of the typed tests.
template <typename T>
class KernelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_run_kernels()) GTEST_SKIP() << "no GPU here";
  }
};

using Types = ::testing::Types<double, float, __half, __nv_bfloat16>;

}  // namespace hookline::testing
