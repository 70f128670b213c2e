// The fibers that run kernels without a GPU: checks what they detect, with deliberately wrong kernels.
#include "tests/support/cuda_on_cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/failure.h"

namespace hookline::testing {
namespace {

using cuda_on_cpu::KernelFault;
using cuda_on_cpu::Order;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

/// What a block of `threads` threads writes to an array of `size`, for each thread order.
std::vector<std::vector<double>> in_each_order(void (*kernel)(double*), unsigned threads, std::size_t size) {
  std::vector<std::vector<double>> results;
  for (const Order order : {Order::forward, Order::reverse, Order::shuffled}) {
    cuda_on_cpu::order = order;
    results.emplace_back(size, -1.0);
    EXPECT_EQ(launch(kernel, dim3(1), dim3(threads), results.back().data()), cudaSuccess);
  }
  cuda_on_cpu::order = Order::forward;
  return results;
}

template <typename... Parameters, typename... Arguments>
std::string fault_of(void (*kernel)(Parameters...), unsigned threads, Arguments... arguments) {
  return failure_of<KernelFault>([&] { launch(kernel, dim3(1), dim3(threads), arguments...); });
}

__global__ void write_places(std::array<unsigned, 6>* places) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  places[block * blockDim.x * blockDim.y * blockDim.z + thread] = {blockIdx.x,  blockIdx.y,  blockIdx.z,
                                                                   threadIdx.x, threadIdx.y, threadIdx.z};
}

TEST(CudaOnCpu, RunsEachThreadOfEachBlockInItsPlace) {
  for (const Order order : {Order::forward, Order::reverse, Order::shuffled}) {
    cuda_on_cpu::order = order;
    std::vector<std::array<unsigned, 6>> places(2 * 3 * 4 * 5 * 3 * 2), expected;
    EXPECT_EQ(launch(write_places, dim3(2, 3, 4), dim3(5, 3, 2), places.data()), cudaSuccess);
    for (unsigned block = 0; block < 24; ++block)
      for (unsigned thread = 0; thread < 30; ++thread)
        expected.push_back({block % 2, block / 2 % 3, block / 6, thread % 5, thread / 5 % 3, thread / 15});
    EXPECT_EQ(places, expected);
  }
  cuda_on_cpu::order = Order::forward;
}

TEST(CudaOnCpu, RefusesALaunchThatCudaRefuses) {
  std::vector<std::array<unsigned, 6>> none;
  for (const auto& [grid, block] : {std::pair(dim3(0), dim3(1)),
                                    {dim3(1, 0), dim3(1)},
                                    {dim3(1, 65536), dim3(1)},
                                    {dim3(1, 1, 65536), dim3(1)},
                                    {dim3(1U << 31), dim3(1)},
                                    {dim3(1), dim3(0)},
                                    {dim3(1), dim3(1025)},
                                    {dim3(1), dim3(32, 33)},
                                    {dim3(1), dim3(1, 1, 65)}})
    EXPECT_EQ(launch(write_places, grid, block, none.data()), cudaErrorInvalidConfiguration);
}

__global__ void reverse_values(double* values) {
  __shared__ double parts[64];
  parts[threadIdx.x] = threadIdx.x;
  __syncthreads();
  values[threadIdx.x] = parts[63 - threadIdx.x];
}

__global__ void reverse_values_without_barrier(double* values) {
  __shared__ double parts[64];
  parts[threadIdx.x] = threadIdx.x;
  values[threadIdx.x] = parts[63 - threadIdx.x];
}

TEST(CudaOnCpu, HoldsAllThreadsAtABarrier) {
  std::vector<double> expected(64);
  for (std::size_t i = 0; i < 64; ++i) expected[i] = 63.0 - static_cast<double>(i);
  EXPECT_THAT(in_each_order(reverse_values, 64, 64), Each(ElementsAreArray(expected)));
}

TEST(CudaOnCpu, RevealsAMissingBarrier) {
  const auto results = in_each_order(reverse_values_without_barrier, 64, 64);
  EXPECT_TRUE(std::isnan(results[0][0])) << "the first thread reads what the last one has yet to write";
  EXPECT_TRUE(std::isnan(results[1][63]));
  EXPECT_EQ(results[0][63], 0);
  EXPECT_NE(std::isnan(results[2][0]), std::isnan(results[2][63])) << "one of two comes first";
}

__global__ void sum_twice_without_barrier_between(double* values) {
  __shared__ double parts[2];
  for (unsigned round = 0; round < 2; ++round) {
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = 1 + round;
    __syncthreads();
    values[round * 64 + threadIdx.x] = parts[0] + parts[1];
  }
}

TEST(CudaOnCpu, LetsThreadsRunAheadWhereALoopLacksABarrier) {
  const auto results = in_each_order(sum_twice_without_barrier_between, 64, 128);
  EXPECT_EQ(results[0][0], 2);
  EXPECT_EQ(results[0][63], 4) << "the first thread of each warp is in the next round";
  EXPECT_EQ(results[1][0], 3);
  EXPECT_EQ(results[1][63], 2);
}

__global__ void keep_shared_memory(double* values) {
  __shared__ double kept[4];
  __shared__ int count[1];
  values[blockIdx.x * 5 + threadIdx.x] = kept[threadIdx.x];
  values[blockIdx.x * 5 + 4] = count[0];
  __syncthreads();
  kept[threadIdx.x] = 7;
  count[0] = 7;
}

TEST(CudaOnCpu, FillsSharedMemoryBeforeEachBlock) {
  std::vector<double> values(10);
  EXPECT_EQ(launch(keep_shared_memory, dim3(2), dim3(4), values.data()), cudaSuccess);
  const auto nan = ::testing::IsNan();
  EXPECT_THAT(values, ElementsAre(nan, nan, nan, nan, -1, nan, nan, nan, nan, -1));
}

constexpr int kBarriers = __LINE__ + 4;
__global__ void diverge(int who, bool ends) {
  if (static_cast<int>(threadIdx.x) == who) {
    if (ends) return;
    __syncthreads();
  }
  __syncthreads();
}

TEST(CudaOnCpu, FindsThreadsThatMissABarrier) {
  const auto at = [](int line) { return "__syncthreads (cuda_on_cpu_test.cc:" + std::to_string(line) + ")"; };
  EXPECT_EQ(fault_of(diverge, 64, 33, true),
            "thread 0 of block (0, 0, 0) waits at " + at(kBarriers + 2) + ", and thread 33 has ended");
  EXPECT_EQ(fault_of(diverge, 64, 0, false), "thread 0 of block (0, 0, 0) waits at " + at(kBarriers) +
                                                 ", and thread 1 waits at " + at(kBarriers + 2));
  EXPECT_EQ(fault_of(diverge, 64, 64, false), "no error") << "after a fault as before";
}

__global__ void shuffle_down(double* values) {
  values[threadIdx.x] = __shfl_down_sync(0xffffffffu, double(threadIdx.x), 5);
}
__global__ void shuffle_down_in_parts(double* values) {
  values[threadIdx.x] = __shfl_down_sync(0xffffffffu, double(threadIdx.x), 3, 8);
}
__global__ void shuffle_up(double* values) {
  values[threadIdx.x] = __shfl_up_sync(0xffffffffu, float(threadIdx.x), 3, 8);
}
__global__ void shuffle_across(double* values) {
  values[threadIdx.x] = __shfl_xor_sync(0xffffffffu, int(threadIdx.x), 5);
}
__global__ void shuffle_across_parts(double* values) {
  values[threadIdx.x] = __shfl_xor_sync(0xffffffffu, int(threadIdx.x), 8, 8);
}
__global__ void shuffle_from_one(double* values) {
  values[threadIdx.x] = __shfl_sync(0xffffffffu, threadIdx.x, 35, 16);
}

// As defined in "Warp Shuffle Functions" of the CUDA C++ Programming Guide.
TEST(CudaOnCpu, ShufflesAsCudaDoes) {
  const auto expect = [](void (*kernel)(double*), auto source_of) {
    std::vector<double> expected(64);
    for (int warp = 0; warp < 64; warp += 32)
      for (int lane = 0; lane < 32; ++lane)
        expected[static_cast<std::size_t>(warp + lane)] = warp + source_of(lane);
    EXPECT_THAT(in_each_order(kernel, 64, 64), Each(ElementsAreArray(expected)));
  };
  expect(shuffle_down, [](int lane) { return lane + 5 < 32 ? lane + 5 : lane; });
  expect(shuffle_down_in_parts, [](int lane) { return lane % 8 + 3 < 8 ? lane + 3 : lane; });
  expect(shuffle_up, [](int lane) { return lane % 8 >= 3 ? lane - 3 : lane; });
  expect(shuffle_across, [](int lane) { return lane ^ 5; });
  expect(shuffle_across_parts,
         [](int lane) { return lane & 8 ? lane ^ 8 : lane; });  // lanes may read from an earlier part
  expect(shuffle_from_one, [](int lane) { return lane / 16 * 16 + 3; });
}

__global__ void sum_by_halves(double* values) {
  double sum = values[threadIdx.x];
  const unsigned mask = threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u;
  for (unsigned step = 8; step > 0; step /= 2) {
    sum += __shfl_down_sync(mask, sum, step, 16);
    __syncwarp(mask);
  }
  values[threadIdx.x] = sum;
}

TEST(CudaOnCpu, ShufflesAmongTheThreadsOfAMask) {
  const auto results = in_each_order(sum_by_halves, 32, 32);
  for (const auto& result : results) {
    EXPECT_EQ(result[0], -16);
    EXPECT_EQ(result[16], -16);
  }
}

constexpr int kShuffle = __LINE__ + 3;
__global__ void shuffle_with_mask(unsigned mask, unsigned ended, int source, int width) {
  if (ended >> threadIdx.x & 1) return;
  __shfl_sync(mask, 1.0, source, width);
}

__global__ void shuffle_and_wait() {
  if (threadIdx.x < 16)
    __syncwarp();
  else
    __syncthreads();
}

TEST(CudaOnCpu, FindsShufflesThatCudaDoesNotDefine) {
  const std::string place = "__shfl_sync (cuda_on_cpu_test.cc:" + std::to_string(kShuffle) + ")";
  EXPECT_EQ(fault_of(shuffle_with_mask, 32, 0xffffffffu, 0u, 0, 32), "no error");
  EXPECT_EQ(fault_of(shuffle_with_mask, 32, 0xffffffffu, 0x80000000u, 0, 32), "no error")
      << "those that ended need not come";
  EXPECT_EQ(fault_of(shuffle_with_mask, 32, 0xffffffffu, 4u, 2, 32),
            "thread 0 of block (0, 0, 0) waits at " + place + " for the value of lane 2, which has ended");
  EXPECT_EQ(
      fault_of(shuffle_with_mask, 20, 0xffffffffu, 0u, 20, 32),
      "thread 0 of block (0, 0, 0) waits at " + place + " for the value of lane 20, which does not exist");
  EXPECT_EQ(fault_of(shuffle_with_mask, 4, 0xfu, 0u, 5, 32),
            "thread 0 of block (0, 0, 0) waits at " + place +
                " for the value of lane 5, which its mask leaves out");
  EXPECT_EQ(fault_of(shuffle_with_mask, 32, 0xfffffff7u, 0u, 0, 32),
            "thread 3 of block (0, 0, 0) calls __shfl_sync with a mask that leaves it out");
  EXPECT_EQ(fault_of(shuffle_with_mask, 32, 0xffffffffu, 0u, 0, 12),
            "thread 0 of block (0, 0, 0) calls __shfl_sync with width 12, which is not a power of 2 up to "
            "32");
  EXPECT_EQ(
      fault_of(shuffle_and_wait, 32),
      "thread 0 of block (0, 0, 0) waits at __syncwarp (cuda_on_cpu_test.cc:" + std::to_string(kShuffle + 5) +
          "), and thread 16 waits at __syncthreads (cuda_on_cpu_test.cc:" + std::to_string(kShuffle + 7) +
          ")");
}

__global__ void fail() {
  __syncthreads();
  if (threadIdx.x == 9) throw std::runtime_error("of thread 9");
  __syncthreads();
}

TEST(CudaOnCpu, RethrowsExceptions) {
  EXPECT_EQ(failure_of<std::runtime_error>([] { launch(fail, dim3(1), dim3(32)); }), "of thread 9");
}

#ifdef __SANITIZE_ADDRESS__
__global__ void write_at(double* values, int at) {
  __shared__ double parts[3];
  double* volatile memory = values ? values : parts;  // hides the array's size from the compiler
  memory[at] = 1;
}

TEST(CudaOnCpuDeathTest, LetsTheAddressSanitizerCatchOutOfBoundsAccess) {
  std::vector<double> values(3);
  EXPECT_EQ(launch(write_at, dim3(1), dim3(1), values.data(), 2), cudaSuccess);
  EXPECT_DEATH(launch(write_at, dim3(1), dim3(1), values.data(), 3), "heap-buffer-overflow");
  EXPECT_DEATH(launch(write_at, dim3(1), dim3(1), nullptr, 3), "global-buffer-overflow");
}
#endif

}  // namespace
}  // namespace hookline::testing
