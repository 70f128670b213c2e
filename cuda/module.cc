// libhookline_cuda.so: NCCL, and PowerSGD's arithmetic on a GPU. Linking libtorch_cuda is half of its purpose: loading it
// brings CUDA into the process.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <limits>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "cuda/low_rank.h"
#include "hooks/build_stamp.h"
#include "hooks/numerics/orthogonalization.h"
#include "parallel/cuda_module.h"

namespace hookline {
namespace {

// c10d's options hold NCCL's by value.
static_assert(NCCL_MAJOR == 2 && NCCL_MINOR == 28, "build with the nccl.h of libtorch 2.11's NCCL, 2.28");

c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                            std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
}

struct Type {
  cuda::Real real;
  double epsilon;  // of the type
};

Type type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return {cuda::Real::float64, std::numeric_limits<double>::epsilon()};
    case at::kFloat:
      return {cuda::Real::float32, std::numeric_limits<float>::epsilon()};
    case at::kHalf:
      return {cuda::Real::float16, static_cast<double>(std::numeric_limits<at::Half>::epsilon())};
    case at::kBFloat16:
      return {cuda::Real::bfloat16, static_cast<double>(std::numeric_limits<at::BFloat16>::epsilon())};
    default:
      TORCH_CHECK(false, "power_sgd: gradients are of type ", tensor.scalar_type(), ", and must be floating");
  }
}

void orthogonalize(const at::Tensor& factor, double epsilon, std::optional<std::uint64_t> redraw_seed) {
  const c10::cuda::CUDAGuard guard(factor.device());
  const Type type = type_of(factor);
  const std::int64_t rank = factor.size(0), n = factor.size(1);
  const auto rule =
      orthogonalization_of(rank, static_cast<std::size_t>(factor.element_size()), type.epsilon, epsilon);
  const at::Tensor basis = at::empty({rank, n}, factor.options().dtype(at::kDouble));
  C10_CUDA_CHECK(cuda::orthogonalize(type.real, factor.mutable_data_ptr(), basis.mutable_data_ptr<double>(),
                                     rank, n, rule.epsilon, rule.passes, rule.precision,
                                     redraw_seed.has_value(), redraw_seed.value_or(0),
                                     c10::cuda::getCurrentCUDAStream()));
}

void reconstruct(const at::Tensor& p, const at::Tensor& q, const at::Tensor& matrix, const at::Tensor& rest) {
  const c10::cuda::CUDAGuard guard(matrix.device());
  C10_CUDA_CHECK(cuda::reconstruct(type_of(matrix).real, p.const_data_ptr(), q.const_data_ptr(),
                                   matrix.mutable_data_ptr(),
                                   rest.defined() ? rest.mutable_data_ptr() : nullptr, q.size(0),
                                   matrix.size(0), matrix.size(1), c10::cuda::getCurrentCUDAStream()));
}

}  // namespace
}  // namespace hookline

extern "C" [[gnu::visibility("default")]] const hookline::CudaModule* hookline_cuda_module() {
  static const hookline::CudaModule module{
      HOOKLINE_BUILD_STAMP, hookline::make_nccl, {hookline::orthogonalize, hookline::reconstruct}};
  return &module;
}
