#include "hooks/numerics/rank_sum.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <vector>

namespace hookline {
namespace {

const std::vector<at::ScalarType> kTypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                            at::kInt,   at::kLong,   at::kByte, at::kChar};

at::Tensor random(std::int64_t elements, at::ScalarType dtype, std::uint64_t seed) {
  return (torch::randn({elements}, at::detail::createCPUGenerator(seed)) * 1000).to(dtype);
}

at::Tensor sum_of(const std::vector<at::Tensor>& tensors, const at::Tensor& out,
                  Kernels kernels = Kernels::best) {
  std::vector<const void*> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(tensor.const_data_ptr());
  rank_sum_of(out.scalar_type(), kernels)(parts.data(), static_cast<int>(parts.size()),
                                          out.mutable_data_ptr(), static_cast<std::size_t>(out.numel()));
  return out;
}

TEST(RankSum, AddsInOrderWithTheSameBitsOnEveryCpuAndInPlace) {
  for (const at::ScalarType dtype : kTypes) {
    for (const int ranks : {1, 2, 3, 8}) {
      for (const std::int64_t elements : {0, 1, 7, 512, 1025, 5003}) {
        std::vector<at::Tensor> parts;
        for (int rank = 0; rank < ranks; ++rank)
          parts.push_back(random(elements, dtype, static_cast<std::uint64_t>(rank) + 7));
        const bool is_half = dtype == at::kHalf || dtype == at::kBFloat16;
        at::Tensor expected = parts[0].to(is_half ? at::kFloat : dtype);
        for (int rank = 1; rank < ranks; ++rank)
          expected = expected + parts[static_cast<std::size_t>(rank)].to(expected.scalar_type());
        expected = expected.to(dtype);
        const auto what = [&] {
          return std::string(c10::toString(dtype)) + ", " + std::to_string(ranks) + " ranks, " +
                 std::to_string(elements) + " elements";
        };
        EXPECT_TRUE(sum_of(parts, torch::empty({elements}, dtype)).equal(expected)) << what();
        EXPECT_TRUE(sum_of(parts, torch::empty({elements}, dtype), Kernels::plain).equal(expected)) << what();
        EXPECT_TRUE(sum_of(parts, parts.back()).equal(expected)) << what() << ", in place";
      }
    }
  }
}

TEST(RankSum, KeepsInfinitiesAndNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const at::Tensor sum = sum_of({torch::tensor({infinity, infinity, 1.0f}).to(dtype),
                                   torch::tensor({1.0f, -infinity, std::nanf("")}).to(dtype)},
                                  torch::empty({3}, dtype));
    EXPECT_TRUE(std::isinf(sum[0].item<double>()));
    EXPECT_TRUE(std::isnan(sum[1].item<double>()));
    EXPECT_TRUE(std::isnan(sum[2].item<double>()));
  }
}

TEST(RankSum, IsMissingForTypesWithoutASum) {
  for (const at::ScalarType dtype : {at::kBool, at::kComplexFloat, at::kFloat8_e4m3fn, at::kShort})
    EXPECT_EQ(rank_sum_of(dtype), nullptr) << dtype;
}

}  // namespace
}  // namespace hookline
