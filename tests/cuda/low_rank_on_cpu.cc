// The kernels of cuda/low_rank.cu, compiled for the CPU.
#include "tests/support/cuda_on_cpu.h"

#include "cuda/low_rank.cu"
