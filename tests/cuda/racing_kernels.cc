#include "tests/cuda/racing_kernels.h"

#include "tests/support/cuda_on_cpu.h"

namespace hookline::testing {
namespace {

__global__ void reverse_kernel(double* values, bool with_barrier) {
  __shared__ double parts[64];
  parts[threadIdx.x] = threadIdx.x;
  if (with_barrier) __syncthreads();
  values[threadIdx.x] = parts[63 - threadIdx.x];
}

__global__ void add_kernel(double* sum) { *sum += 1; }

__global__ void exchange_kernel(double* values, bool of_the_other) {
  const unsigned own = 32 * blockIdx.x + threadIdx.x;
  values[own] = own;
  __syncthreads();
  const double read = values[of_the_other ? (own + 32) % 64 : own / 32 * 32];
  if (read < 0) __syncthreads();  // never true; forces the read
}

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  if (cudaLaunchKernelEx(&config, kernel, arguments...) != cudaSuccess)
    throw std::logic_error("not launched");
}

}  // namespace

void reverse_values(double* values, bool with_barrier) {
  launch(reverse_kernel, 1, 64, values, with_barrier);
}
void add_up(double* sum) { launch(add_kernel, 1, 64, sum); }
void exchange_between_blocks(double* values, bool of_the_other) {
  launch(exchange_kernel, 2, 32, values, of_the_other);
}

}  // namespace hookline::testing
