// The kernels of power_sgd_kernels.h on tensors, as hooks/numerics/cuda_kernels.h describes them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <vector>

#include "cuda/power_sgd_kernels.h"

namespace hookline::cuda {

inline Real real_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return Real::float64;
    case at::kFloat:
      return Real::float32;
    case at::kHalf:
      return Real::float16;
    case at::kBFloat16:
      return Real::bfloat16;
    default:
      TORCH_CHECK(false, "power_sgd: gradients are of type ", tensor.scalar_type(), ", and must be floating");
  }
}

inline const void* read_pointer(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

inline cudaError_t orthogonalize(const at::Tensor& buffer, const Factors& factors, double epsilon,
                                 const std::vector<std::uint64_t>& redraw_seeds, cudaStream_t stream) {
  std::int64_t numel = 0;
  for (const Factor& factor : factors) numel += factor.rank * factor.length;
  // Freed when this function returns, while kernels still use it. That is safe: PyTorch's allocator reuses
  // the memory only for work that is enqueued later on the same stream.
  const at::Tensor basis = at::empty({numel}, buffer.options().dtype(at::kDouble));
  return orthogonalize(real_of(buffer), buffer.mutable_data_ptr(), factors, epsilon, redraw_seeds,
                       basis.mutable_data_ptr<double>(), stream);
}

inline cudaError_t accumulate(const Matrices& matrices, const at::Tensor& sum, const at::Tensor& p,
                              const at::Tensor& q, const at::Tensor& bucket, cudaStream_t stream) {
  return accumulate(real_of(sum), matrices, sum.mutable_data_ptr(), read_pointer(p), read_pointer(q),
                    read_pointer(bucket), bucket.defined() ? bucket.numel() : 0, stream);
}

inline cudaError_t reconstruct(const Matrices& matrices, const at::Tensor& p, const at::Tensor& q,
                               const at::Tensor& bucket, cudaStream_t stream) {
  return reconstruct(real_of(bucket), matrices, read_pointer(p), read_pointer(q), bucket.mutable_data_ptr(),
                     bucket.numel(), stream);
}

}  // namespace hookline::cuda
