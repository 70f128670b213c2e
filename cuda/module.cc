// libhookline_cuda.so: NCCL, and PowerSGD's arithmetic on a GPU. It links libtorch_cuda on purpose: loading
// this library brings CUDA into the process.
#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "cuda/tensors.h"
#include "hooks/build_stamp.h"
#include "parallel/world/cuda_module.h"
#include "torch_versions/nccl.h"

namespace hookline {
namespace {

c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                            std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
}

void orthogonalize(const at::Tensor& buffer, const Factors& factors, double epsilon,
                   const std::vector<std::uint64_t>& redraw_seeds) {
  const c10::cuda::CUDAGuard guard(buffer.device());
  C10_CUDA_CHECK(
      cuda::orthogonalize(buffer, factors, epsilon, redraw_seeds, c10::cuda::getCurrentCUDAStream()));
}

void accumulate(const Matrices& matrices, const at::Tensor& sum, const at::Tensor& p, const at::Tensor& q,
                const at::Tensor& bucket) {
  const c10::cuda::CUDAGuard guard(sum.device());
  C10_CUDA_CHECK(cuda::accumulate(matrices, sum, p, q, bucket, c10::cuda::getCurrentCUDAStream()));
}

void reconstruct(const Matrices& matrices, const at::Tensor& p, const at::Tensor& q,
                 const at::Tensor& bucket) {
  const c10::cuda::CUDAGuard guard(bucket.device());
  C10_CUDA_CHECK(cuda::reconstruct(matrices, p, q, bucket, c10::cuda::getCurrentCUDAStream()));
}

}  // namespace
}  // namespace hookline

extern "C" [[gnu::visibility("default")]] const hookline::CudaModule* hookline_cuda_module() {
  static const hookline::CudaModule module{
      HOOKLINE_BUILD_STAMP,
      hookline::make_nccl,
      {hookline::orthogonalize, hookline::accumulate, hookline::reconstruct}};
  return &module;
}
