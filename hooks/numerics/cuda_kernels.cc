#include "hooks/numerics/cuda_kernels.h"

#include "base/error.h"

namespace hookline {
namespace {

const CudaKernels* loaded = nullptr;

}  // namespace

void use_cuda_kernels(const CudaKernels& kernels) { loaded = &kernels; }

const CudaKernels& cuda_kernels() {
  if (!loaded)
    throw HookError(
        "gradients are on a GPU, and hookline's CUDA module is not loaded: let hookline place the model, "
        "with [launch] "
        "device = \"cuda\" or \"auto\" and Accelerator::prepare");
  return *loaded;
}

}  // namespace hookline
