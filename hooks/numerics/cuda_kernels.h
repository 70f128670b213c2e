// The kernels of low_rank.h on NVIDIA GPUs, which a module brings that is loaded only when a run asks for a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace hookline {

/// What the module brings. All of it is put on the current stream, without waiting, and gives the same bits on every GPU
/// of one model.
struct CudaKernels {
  /// orthogonalize of low_rank.h. With a seed, a vector that depends on earlier ones is drawn anew instead of becoming
  /// zero.
  void (*orthogonalize)(const at::Tensor& factor, double epsilon, std::optional<std::uint64_t> redraw_seed);

  /// reconstruct_and_subtract of low_rank.h; `rest` may be undefined.
  void (*reconstruct)(const at::Tensor& p, const at::Tensor& q, const at::Tensor& matrix,
                      const at::Tensor& rest);
};

/// Called once, when the module has been loaded.
void use_cuda_kernels(const CudaKernels& kernels);

/// Throws HookError if the module is not loaded.
const CudaKernels& cuda_kernels();

}  // namespace hookline
