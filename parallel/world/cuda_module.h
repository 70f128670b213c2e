// What libhookline_cuda.so offers: all of hookline that needs libtorch_cuda.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

#include "hooks/numerics/cuda_kernels.h"

namespace hookline {

/// The table that the module's one exported function returns. Both sides are built from one tree: see
/// `build`.
struct CudaModule {
  const char* build;  // HOOKLINE_BUILD_STAMP

  /// An NCCL backend for one rank. Its communicator is made by the first collective, on the device of its
  /// tensor.
  c10::intrusive_ptr<c10d::Backend> (*make_nccl)(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                 int size, std::chrono::milliseconds timeout);

  CudaKernels kernels;
};

inline constexpr const char* kCudaModuleFile = "libhookline_cuda.so";
inline constexpr const char* kCudaModuleFunction = "hookline_cuda_module";
using CudaModuleFunction = const CudaModule*();

}  // namespace hookline
