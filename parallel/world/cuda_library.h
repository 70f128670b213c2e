// Loads libhookline_cuda.so.
#pragma once

#include <string>

#include "parallel/world/cuda_module.h"

namespace hookline {

struct CudaLibrary {
  const CudaModule* module = nullptr;
  std::string problem;  // why there is no module; empty if there is one
};

/// Loads libtorch_cuda and libhookline_cuda.so at the first call, and lets hooks use the latter's kernels.
const CudaLibrary& cuda_library();

}  // namespace hookline
