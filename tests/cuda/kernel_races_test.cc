// Data races in kernels: PowerSGD's have none; deliberately wrong ones do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/power_sgd_kernels.h"
#include "tests/cuda/racing_kernels.h"
#include "tests/support/kernel_races.h"

namespace hookline::testing {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;

TEST(KernelRaces, AreFoundWhereABarrierIsMissing) {
  std::vector<double> values(64);
  reverse_values(values.data(), true);
  EXPECT_THAT(take_kernel_races(), IsEmpty());
  reverse_values(values.data(), false);
  EXPECT_THAT(take_kernel_races(), Contains("thread 32 of block 0 writes what was read by thread 31"));
}

TEST(KernelRaces, AreFoundWhereThreadsAddToOneNumber) {
  std::vector<double> sum(1);
  add_up(sum.data());
  EXPECT_EQ(sum[0], 64) << "as fibers do, and a GPU does not";
  EXPECT_THAT(take_kernel_races(), Contains("thread 1 of block 0 reads what was written by thread 0"));
}

TEST(KernelRaces, AreFoundBetweenBlocks) {
  std::vector<double> values(64);
  exchange_between_blocks(values.data(), false);
  EXPECT_THAT(take_kernel_races(), IsEmpty());
  exchange_between_blocks(values.data(), true);
  EXPECT_THAT(take_kernel_races(), Contains("thread 0 of block 1 writes what was read by another block"));
}

TEST(KernelRaces, AreAbsentFromThePowerSgdKernels) {
  for (const auto type :
       {cuda::Real::float64, cuda::Real::float32, cuda::Real::float16, cuda::Real::bfloat16}) {
    // Bit patterns that are valid in each type, none of them large or NaN.
    std::vector<std::uint16_t> p(4 * 2000 * 4), q = p, sum(4 * 2000 * 40), bucket = sum;
    for (std::size_t i = 0; i < p.size(); ++i) q[i] = p[i] = static_cast<std::uint16_t>(0x3c5a + i * i % 97);
    const Matrices matrices{{0, 33, 40, 4, 0, 0}, {33 * 40, 1500, 30, 4, 4 * 33, 4 * 40}};
    const Factors factors{{0, 4, 2}, {8, 4, 33}, {140, 4, 1500}};  // 4 vectors of 2 elements: 2 too many
    std::vector<double> basis(4 * 1535);
    for (const std::vector<std::uint64_t>& seeds : {std::vector<std::uint64_t>(), {1, 2, 3}})
      EXPECT_EQ(cuda::orthogonalize(type, p.data(), factors, 0, seeds, basis.data(), nullptr), cudaSuccess);
    EXPECT_EQ(cuda::accumulate(type, matrices, sum.data(), p.data(), q.data(), bucket.data(), 40000, nullptr),
              cudaSuccess);
    EXPECT_EQ(cuda::reconstruct(type, matrices, p.data(), q.data(), bucket.data(), 40000, nullptr),
              cudaSuccess);
    EXPECT_THAT(take_kernel_races(), IsEmpty());
  }
}

}  // namespace
}  // namespace hookline::testing
