// Compares the kernels with the CPU functions of hooks/numerics/low_rank.h: as fibers, and on a GPU if there
// is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <ostream>
#include <tuple>
#include <utility>
#include <vector>

#include "config/visible_gpus.h"
#include "cuda/tensors.h"
#include "hooks/numerics/cuda_kernels.h"
#include "hooks/numerics/low_rank.h"
#include "parallel/world/placement.h"
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

/// The kernels run as fibers, on CPU tensors.
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

void PrintTo(Execution execution, std::ostream* out) {
  *out << (execution == Execution::fibers ? "fibers" : "gpu");
}

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

  /// A copy on the device that the kernels use.
  static at::Tensor placed(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    return tensor.to(on_gpu() ? at::kCUDA : at::kCPU, tensor.scalar_type(), false, true);
  }

  /// A copy of `buffer` whose factors the kernels have orthonormalized.
  static at::Tensor orthogonalized(const at::Tensor& buffer, const Factors& factors, double epsilon) {
    const at::Tensor copy = placed(buffer);
    kernels().orthogonalize(copy, factors, epsilon, {});
    return copy.cpu();
  }
};

INSTANTIATE_TEST_SUITE_P(By, LowRankKernels, ::testing::Values(Execution::fibers, Execution::gpu),
                         ::testing::PrintToStringParamName());

using Type = std::pair<at::ScalarType, double>;  // a dtype, and the tolerance against the CPU's results

const Factors kFactors{{0, 1, 33}, {33, 4, 2000}, {8040, 2, 40}, {8120, 3, 1}, {8130, 2, 600}};
constexpr std::int64_t kFactorsNumel = 9330;  // with gaps

TEST_P(LowRankKernels, OrthogonalizeAsTheCpuDoes) {
  // Both sum in double, in a different order, so results rarely round differently.
  for (const auto& [dtype, tolerance] :
       {Type(at::kFloat, 1e-7), {at::kDouble, 1e-14}, {at::kHalf, 1e-4}, {at::kBFloat16, 1e-3}}) {
    for (const double epsilon : {0.0, 0.01}) {
      const at::Tensor buffer = random({kFactorsNumel}, dtype, 5);
      buffer.narrow(0, 33 + 2 * 2000, 2000).copy_(buffer.narrow(0, 33, 2000));  // a copy of an earlier vector
      buffer.narrow(0, 8040, 40).zero_();
      const at::Tensor actual = orthogonalized(buffer, kFactors, epsilon);
      orthogonalize(buffer, kFactors, epsilon);
      EXPECT_LE(distance(actual, buffer), tolerance) << dtype << " epsilon " << epsilon;
      EXPECT_TRUE(actual.eq(0).equal(buffer.eq(0))) << dtype << " epsilon " << epsilon;
    }
  }
}

TEST_P(LowRankKernels, PassNaNAndInfinityOnAsTheCpuDoes) {
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    const at::Tensor buffer = random({kFactorsNumel}, at::kFloat, 6);
    buffer[33 + 2000 + 7] = bad;
    const at::Tensor actual = orthogonalized(buffer, kFactors, 0);
    orthogonalize(buffer, kFactors, 0);
    EXPECT_TRUE(actual.isnan().equal(buffer.isnan())) << bad;
    EXPECT_TRUE(buffer.isnan().any().item<bool>());
  }
}

TEST_P(LowRankKernels, RedrawDependentVectorsFromTheirFactorsSeed) {
  const at::Tensor zeros = torch::zeros({2 * 2 * 50}), first = placed(zeros), second = placed(zeros);
  const Factors factors{{0, 2, 50}, {100, 2, 50}};
  kernels().orthogonalize(first, factors, 0, {1, 2});
  kernels().orthogonalize(second, factors, 0, {1, 3});
  const at::Tensor drawn = first.cpu().view({2, 2, 50}), others = second.cpu().view({2, 2, 50});
  EXPECT_LE(distance(drawn.matmul(drawn.transpose(1, 2)), torch::eye(2).expand({2, 2, 2})), 1e-6);
  EXPECT_TRUE(drawn[0].equal(others[0]));
  EXPECT_FALSE(drawn[1].equal(others[1]));
}

/// Two matrices, an uncompressed segment of 10 elements, and a third matrix whose last 5 elements lie outside
/// the bucket.
const Matrices kMatrices{{0, 300, 70, 3, 0, 0}, {21000, 8, 1025, 5, 900, 210}, {29210, 7, 9, 2, 950, 5400}};
constexpr std::int64_t kNumel = 29210 + 63, kBucketNumel = kNumel - 5;

TEST_P(LowRankKernels, ReconstructAndAccumulateAsTheCpuDoes) {
  for (const auto& [dtype, tolerance] :
       {Type(at::kFloat, 1e-5), {at::kDouble, 1e-13}, {at::kHalf, 2e-3}, {at::kBFloat16, 1.6e-2}}) {
    const at::Tensor p = random({964}, dtype, 4), q = random({5418}, dtype, 3);
    const auto expect_same = [&](const at::Tensor& actual, const at::Tensor& expected, const char* what) {
      if (on_gpu())  // a GPU fuses multiply and add
        EXPECT_LE(distance(actual.cpu(), expected), tolerance) << what << ", " << dtype;
      else
        EXPECT_TRUE(actual.equal(expected)) << what << ", " << dtype;
    };
    const at::Tensor bucket = random({kBucketNumel}, dtype, 1), actual = placed(bucket);
    kernels().reconstruct(kMatrices, placed(p), placed(q), actual);
    reconstruct(kMatrices, {p, q}, bucket);
    expect_same(actual, bucket, "reconstruct");

    for (const bool subtract : {false, true}) {
      for (const bool add : {false, true}) {
        const at::Tensor sum = random({kNumel}, dtype, 2), actual_sum = placed(sum);
        const FactorPair before = subtract ? FactorPair{p, q} : FactorPair();
        const at::Tensor added = add ? bucket : at::Tensor();
        kernels().accumulate(kMatrices, actual_sum, placed(before.p), placed(before.q), placed(added));
        accumulate(kMatrices, sum, before, added);
        expect_same(actual_sum, sum, "accumulate");
      }
    }
  }
}

TEST_P(LowRankKernels, GiveTheSameBitsEachTime) {
  const Factors factors{{0, 3, 5001}, {3 * 5001, 3, 777}};
  const Matrices matrices{{0, 5001, 77, 3, 0, 0}};
  const at::Tensor buffer = random({3 * 5778}, at::kFloat, 6), q = random({3 * 77}, at::kFloat, 7);
  at::Tensor first, first_sum;
  for (int time = 0; time < 5; ++time) {
    const at::Tensor p = placed(orthogonalized(buffer, factors, 0));
    const at::Tensor sum = placed(random({5001 * 77}, at::kFloat, 8));
    kernels().accumulate(matrices, sum, p, placed(q), at::Tensor());
    if (time == 0) std::tie(first, first_sum) = std::tie(p, sum);
    EXPECT_TRUE(p.equal(first) && sum.equal(first_sum));
  }
}

TEST_P(LowRankKernels, RefuseATypeThatIsNotFloating) {
  EXPECT_THAT(testing::failure_of<c10::Error>([] {
                kernels().orthogonalize(placed(torch::ones({6}, at::kInt)), {{0, 2, 3}}, 0, {});
              }),
              ::testing::HasSubstr("power_sgd: gradients are of type Int, and must be floating"));
}

}  // namespace
}  // namespace hookline
