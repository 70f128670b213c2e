// Kernels that two threads of a GPU could run at the same instant: PowerSGD's, and some that are wrong on purpose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/low_rank.h"
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

TEST(KernelRaces, AreFoundWhereThreadsAddToOneNumberInTurn) {
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

TEST(KernelRaces, AreNotInTheKernelsOfPowerSgd) {
  for (const auto type :
       {cuda::Real::float64, cuda::Real::float32, cuda::Real::float16, cuda::Real::bfloat16}) {
    for (const std::int64_t n : {2, 33, 1500}) {  // of 2, two vectors are too many
      // Bits that mean something in each type; of these no number is large or NaN.
      std::vector<std::uint16_t> factor(4 * 4 * n, 0x3c5a);
      for (std::size_t i = 0; i < factor.size(); ++i)
        factor[i] = static_cast<std::uint16_t>(factor[i] + i * i % 97);
      std::vector<double> basis(4 * n);
      EXPECT_EQ(cuda::orthogonalize(type, factor.data(), basis.data(), 4, n, 0, 2, 1e-3, true, 1, nullptr),
                cudaSuccess);
      std::vector<std::uint16_t> matrix(4 * n * 30), rest(4 * n * 30);
      EXPECT_EQ(cuda::reconstruct(type, factor.data(), factor.data(), matrix.data(), rest.data(), 4, n, 30,
                                  nullptr),
                cudaSuccess);
      EXPECT_THAT(take_kernel_races(), IsEmpty()) << n;
    }
  }
}

}  // namespace
}  // namespace hookline::testing
