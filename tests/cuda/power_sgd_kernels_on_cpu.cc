// The kernels of cuda/power_sgd_kernels.cu, compiled for the CPU.
#include "tests/support/cuda_on_cpu.h"

#include "cuda/power_sgd_kernels.cu"
