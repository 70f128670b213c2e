// The kernels of low_rank.h on NVIDIA GPUs. They are in a module that is loaded only when a run asks for a
// GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hooks/numerics/bucket_parts.h"

namespace hookline {

/// What the module brings. All of it is put on the current stream, without waiting, and gives the same bits
/// on all GPUs of the same type.
///
/// Each call is for all matrices of a bucket. Tensors are flat, contiguous, of one floating dtype and on one
/// device. `bucket` may end before the last matrix does. It then counts as zero beyond its end, and no
/// element that it lacks is read or written.
struct CudaKernels {
  /// orthogonalize of low_rank.h, for each factor in `buffer`. `redraw_seeds` is empty, or has a seed for
  /// each factor: then a vector that depends on earlier ones is drawn anew instead of becoming zero.
  void (*orthogonalize)(const at::Tensor& buffer, const Factors& factors, double epsilon,
                        const std::vector<std::uint64_t>& redraw_seeds);

  /// sum = (sum − P·Qᵀ) + bucket, each difference and sum rounded to the dtype, as is the product. `p` and
  /// `q` may be undefined (nothing is subtracted), and so may `bucket` (nothing is added).
  void (*accumulate)(const Matrices& matrices, const at::Tensor& sum, const at::Tensor& p,
                     const at::Tensor& q, const at::Tensor& bucket);

  /// bucket = P·Qᵀ.
  void (*reconstruct)(const Matrices& matrices, const at::Tensor& p, const at::Tensor& q,
                      const at::Tensor& bucket);
};

/// Called once, when the module has been loaded.
void use_cuda_kernels(const CudaKernels& kernels);

/// Throws HookError if the module is not loaded.
const CudaKernels& cuda_kernels();

}  // namespace hookline
