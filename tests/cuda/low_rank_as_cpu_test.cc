// The kernels against the CPU's functions of hooks/numerics/low_rank.h: as fibers, and on a GPU where there is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "config/visible_gpus.h"
#include "cuda/tensors.h"
#include "hooks/numerics/cuda_kernels.h"
#include "hooks/numerics/low_rank.h"
#include "parallel/placement.h"
#include "tests/support/failure.h"

namespace hookline {
namespace {

at::Tensor random(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed), torch::kDouble).to(dtype);
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  return (x - y).norm().item<double>() / std::max(y.norm().item<double>(), 1e-30);
}

/// The kernels as fibers, on tensors of the CPU.
const CudaKernels kFibers{
    [](const at::Tensor& buffer, const Factors& factors, double epsilon,
       const std::vector<std::uint64_t>& redraw_seeds) {
      EXPECT_EQ(cuda::orthogonalize(buffer, factors, epsilon, redraw_seeds, nullptr), cudaSuccess);
    },
    [](const Matrices& matrices, const at::Tensor& sum, const at::Tensor& p, const at::Tensor& q,
       const at::Tensor& bucket) {
      EXPECT_EQ(cuda::accumulate(matrices, sum, p, q, bucket, nullptr), cudaSuccess);
    },
    [](const Matrices& matrices, const at::Tensor& p, const at::Tensor& q, const at::Tensor& bucket) {
      EXPECT_EQ(cuda::reconstruct(matrices, p, q, bucket, nullptr), cudaSuccess);
    }};

enum class Execution { fibers, gpu };

class LowRankKernels : public ::testing::TestWithParam<Execution> {
 protected:
  void SetUp() override {
    if (!on_gpu()) return;
    if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
    LaunchConfig config;
    config.device = "cuda";
    config.backend = "gloo";
    place_rank(config, 0, 1);  // loads the module
  }

  static bool on_gpu() { return GetParam() == Execution::gpu; }
  static const CudaKernels& kernels() { return on_gpu() ? cuda_kernels() : kFibers; }

  /// A flat copy for the kernels to work on.
  static at::Tensor placed(const at::Tensor& tensor) {
    return tensor.flatten().to(on_gpu() ? at::kCUDA : at::kCPU, tensor.scalar_type(), false, true);
  }

  /// A copy of `factor`, made orthonormal by the kernel.
  static at::Tensor orthogonalized(const at::Tensor& factor, double epsilon) {
    const at::Tensor buffer = placed(factor);
    kernels().orthogonalize(buffer, {{0, factor.size(0), factor.size(1)}}, epsilon, {});
    return buffer.cpu().view_as(factor);
  }

  /// The product of p and q by the kernel, and what it leaves of `sum` with `added` to it.
  static std::pair<at::Tensor, at::Tensor> multiplied(const at::Tensor& p, const at::Tensor& q,
                                                      const at::Tensor& sum, const at::Tensor& added) {
    const Matrices matrices{{0, p.size(1), q.size(1), p.size(0), 0, 0}};
    const at::Tensor product = placed(torch::empty_like(sum)), left = placed(sum);
    kernels().reconstruct(matrices, placed(p), placed(q), product);
    kernels().accumulate(matrices, left, placed(p), placed(q), placed(added));
    return {product.cpu().view_as(sum), left.cpu().view_as(sum)};
  }
};

INSTANTIATE_TEST_SUITE_P(By, LowRankKernels, ::testing::Values(Execution::fibers, Execution::gpu),
                         [](const auto& execution) {
                           return std::string(execution.param == Execution::fibers ? "fibers" : "gpu");
                         });

TEST_P(LowRankKernels, OrthogonalizeAsTheCpuDoes) {
  for (const auto& [dtype, tolerance] :
       {std::pair(at::kFloat, 1e-7), {at::kDouble, 1e-14}, {at::kHalf, 1e-4}, {at::kBFloat16, 1e-3}}) {
    for (const double epsilon : {0.0, 0.01}) {
      for (const std::int64_t n : {1, 33, 2000}) {
        for (const std::int64_t rank : {1, 2, 4}) {
          at::Tensor factor = random({rank, n}, dtype, 5);
          if (rank == 4) factor[2].copy_(factor[0]);  // depends on an earlier one
          const at::Tensor actual = orthogonalized(factor, epsilon);
          orthogonalize(factor, epsilon);
          EXPECT_LE(distance(actual, factor), tolerance)
              << dtype << " rank " << rank << " epsilon " << epsilon;
        }
      }
    }
  }
}

TEST_P(LowRankKernels, PassNaNAndInfinityOnAsTheCpuDoes) {
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    at::Tensor factor = random({3, 40}, at::kFloat, 6);
    factor[1][7] = bad;
    const at::Tensor actual = orthogonalized(factor, 0);
    orthogonalize(factor, 0);
    EXPECT_TRUE(actual.isnan().equal(factor.isnan())) << bad;
  }
}

TEST_P(LowRankKernels, ReconstructAndAccumulateAsTheCpuDoes) {
  for (const auto& [dtype, tolerance] :
       {std::pair(at::kFloat, 1e-5), {at::kDouble, 1e-13}, {at::kHalf, 2e-3}, {at::kBFloat16, 1.6e-2}}) {
    for (const auto& [n, m, rank] : {std::tuple(1, 1, 1), {5, 3, 2}, {300, 70, 3}, {64, 1025, 5}}) {
      const at::Tensor p = random({rank, n}, dtype, 4), q = random({rank, m}, dtype, 3);
      const at::Tensor sum = random({n, m}, dtype, 2), added = random({n, m}, dtype, 1);
      const auto [product, left] = multiplied(p, q, sum, added);
      const at::Tensor expected = torch::empty({n, m}, dtype), expected_left = sum.clone();
      reconstruct_and_subtract(p, q, expected, expected_left);
      expected_left.add_(added);
      if (on_gpu()) {  // which fuses products with sums
        EXPECT_LE(distance(product, expected), tolerance) << dtype << " " << n << "x" << m;
        EXPECT_LE(distance(left, expected_left), tolerance) << dtype << " " << n << "x" << m;
      } else {
        EXPECT_TRUE(product.equal(expected) && left.equal(expected_left)) << dtype << " " << n << "x" << m;
      }
    }
  }
}

TEST_P(LowRankKernels, GiveTheSameBitsEachTime) {
  const at::Tensor factor = random({3, 5001}, at::kFloat, 6), q = random({3, 77}, at::kFloat, 7);
  const at::Tensor sum = random({5001, 77}, at::kFloat, 8);
  const at::Tensor p = orthogonalized(factor, 0);
  const auto [product, left] = multiplied(p, q, sum, sum);
  for (int time = 0; time < 4; ++time) {
    EXPECT_TRUE(orthogonalized(factor, 0).equal(p));
    const auto [again, left_again] = multiplied(p, q, sum, sum);
    EXPECT_TRUE(again.equal(product) && left_again.equal(left));
  }
}

TEST_P(LowRankKernels, RefuseATypeThatIsNotFloating) {
  EXPECT_THAT(testing::failure_of<c10::Error>([] {
                kernels().orthogonalize(placed(torch::ones({2, 3}, at::kInt)), {{0, 2, 3}}, 0, {});
              }),
              ::testing::HasSubstr("power_sgd: gradients are of type Int, and must be floating"));
}

}  // namespace
}  // namespace hookline
