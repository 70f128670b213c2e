// The kernels against the CPU's functions of hooks/numerics/low_rank.h: as fibers, and on a GPU where there is one.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "config/visible_gpus.h"
#include "cuda/low_rank.h"
#include "hooks/numerics/low_rank.h"
#include "hooks/numerics/orthogonalization.h"
#include "parallel/placement.h"

namespace hookline {
namespace {

at::Tensor random(at::IntArrayRef shape, at::ScalarType dtype, std::uint64_t seed) {
  return torch::randn(shape, at::detail::createCPUGenerator(seed), torch::kDouble).to(dtype);
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  return (x - y).norm().item<double>() / std::max(y.norm().item<double>(), 1e-30);
}

std::pair<cuda::Real, double> type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return {cuda::Real::float64, std::numeric_limits<double>::epsilon()};
    case at::kFloat:
      return {cuda::Real::float32, std::numeric_limits<float>::epsilon()};
    case at::kHalf:
      return {cuda::Real::float16, 0x1p-10};
    default:
      return {cuda::Real::bfloat16, 0x1p-7};
  }
}

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

  /// A copy of `factor`, made orthonormal by the kernel.
  static at::Tensor orthogonalized(const at::Tensor& factor, double epsilon) {
    if (on_gpu()) {
      const at::Tensor copy = factor.cuda();
      orthogonalize(copy, epsilon);
      return copy.cpu();
    }
    const at::Tensor copy = factor.clone(), basis = torch::empty(factor.sizes(), torch::kDouble);
    const auto [real, type_epsilon] = type_of(factor);
    const auto rule = orthogonalization_of(factor.size(0), static_cast<std::size_t>(factor.element_size()),
                                           type_epsilon, epsilon);
    EXPECT_EQ(
        cuda::orthogonalize(real, copy.mutable_data_ptr(), basis.mutable_data_ptr<double>(), factor.size(0),
                            factor.size(1), rule.epsilon, rule.passes, rule.precision, false, 0, nullptr),
        cudaSuccess);
    return copy;
  }

  /// The matrix, and what it leaves of `rest`, by the kernel.
  static std::pair<at::Tensor, at::Tensor> reconstructed(const at::Tensor& p, const at::Tensor& q,
                                                         const at::Tensor& rest) {
    const at::Tensor left = on_gpu() ? rest.cuda() : rest.clone(), product = torch::empty_like(left);
    if (on_gpu())
      reconstruct_and_subtract(p.cuda(), q.cuda(), product, left);
    else
      EXPECT_EQ(cuda::reconstruct(type_of(p).first, p.const_data_ptr(), q.const_data_ptr(),
                                  product.mutable_data_ptr(), left.mutable_data_ptr(), p.size(0), p.size(1),
                                  q.size(1), nullptr),
                cudaSuccess);
    return {product.cpu(), left.cpu()};
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

TEST_P(LowRankKernels, ReconstructAsTheCpuDoes) {
  for (const auto& [dtype, tolerance] :
       {std::pair(at::kFloat, 1e-5), {at::kDouble, 1e-13}, {at::kHalf, 2e-3}, {at::kBFloat16, 1.6e-2}}) {
    for (const auto& [n, m, rank] : {std::tuple(1, 1, 1), {5, 3, 2}, {300, 70, 3}, {64, 1025, 5}}) {
      const at::Tensor p = random({rank, n}, dtype, 4), q = random({rank, m}, dtype, 3);
      at::Tensor product = torch::empty({n, m}, dtype), rest = random({n, m}, dtype, 2);
      const auto [actual, left] = reconstructed(p, q, rest);
      reconstruct_and_subtract(p, q, product, rest);
      if (on_gpu()) {  // which fuses products with sums
        EXPECT_LE(distance(actual, product), tolerance) << dtype << " " << n << "x" << m;
        EXPECT_LE(distance(left, rest), tolerance) << dtype << " " << n << "x" << m;
      } else {
        EXPECT_TRUE(actual.equal(product) && left.equal(rest)) << dtype << " " << n << "x" << m;
      }
    }
  }
}

TEST_P(LowRankKernels, GiveTheSameBitsEachTime) {
  const at::Tensor factor = random({3, 5001}, at::kFloat, 6), q = random({3, 77}, at::kFloat, 7);
  const at::Tensor rest = torch::zeros({5001, 77});
  const at::Tensor p = orthogonalized(factor, 0), product = reconstructed(p, q, rest).first;
  for (int time = 0; time < 4; ++time) {
    EXPECT_TRUE(orthogonalized(factor, 0).equal(p));
    EXPECT_TRUE(reconstructed(p, q, rest).first.equal(product));
  }
}

}  // namespace
}  // namespace hookline
