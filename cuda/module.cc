// libhookline_cuda.so: NCCL, and PowerSGD's arithmetic on a GPU. Linking libtorch_cuda is half of its purpose: loading it
// brings CUDA into the process.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
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

/// `count` elements of a flat tensor from `offset` on.
at::Tensor part_of(const at::Tensor& tensor, std::int64_t offset, std::int64_t count) {
  return tensor.narrow(0, offset, count);
}

void orthogonalize(const at::Tensor& buffer, const Factors& factors, double epsilon,
                   const std::vector<std::uint64_t>& redraw_seeds) {
  const c10::cuda::CUDAGuard guard(buffer.device());
  const Type type = type_of(buffer);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const Factor& f = factors[i];
    const auto rule =
        orthogonalization_of(f.rank, static_cast<std::size_t>(buffer.element_size()), type.epsilon, epsilon);
    const at::Tensor basis = at::empty({f.rank, f.length}, buffer.options().dtype(at::kDouble));
    C10_CUDA_CHECK(
        cuda::orthogonalize(type.real, part_of(buffer, f.offset, f.rank * f.length).mutable_data_ptr(),
                            basis.mutable_data_ptr<double>(), f.rank, f.length, rule.epsilon, rule.passes,
                            rule.precision, !redraw_seeds.empty(), redraw_seeds.empty() ? 0 : redraw_seeds[i],
                            c10::cuda::getCurrentCUDAStream()));
  }
}

/// out = P·Qᵀ of one matrix, and rest −= it unless `rest` is undefined; both of n · m elements.
void reconstruct_one(const CompressedMatrix& c, const at::Tensor& p, const at::Tensor& q,
                     const at::Tensor& out, const at::Tensor& rest) {
  C10_CUDA_CHECK(cuda::reconstruct(type_of(out).real, part_of(p, c.p_offset, c.rank * c.n).const_data_ptr(),
                                   part_of(q, c.q_offset, c.rank * c.m).const_data_ptr(),
                                   out.mutable_data_ptr(), rest.defined() ? rest.mutable_data_ptr() : nullptr,
                                   c.rank, c.n, c.m, c10::cuda::getCurrentCUDAStream()));
}

/// How many elements of the matrix lie in `bucket`.
std::int64_t there(const CompressedMatrix& c, const at::Tensor& bucket) {
  return std::clamp<std::int64_t>(bucket.numel() - c.offset, 0, c.n * c.m);
}

void accumulate(const Matrices& matrices, const at::Tensor& sum, const at::Tensor& p, const at::Tensor& q,
                const at::Tensor& bucket) {
  const c10::cuda::CUDAGuard guard(sum.device());
  for (const CompressedMatrix& c : matrices) {
    at::Tensor part = part_of(sum, c.offset, c.n * c.m);
    if (p.defined()) reconstruct_one(c, p, q, at::empty_like(part), part);
    if (!bucket.defined()) continue;
    const std::int64_t count = there(c, bucket);
    part.narrow(0, 0, count).add_(part_of(bucket, c.offset, count));
  }
}

void reconstruct(const Matrices& matrices, const at::Tensor& p, const at::Tensor& q,
                 const at::Tensor& bucket) {
  const c10::cuda::CUDAGuard guard(bucket.device());
  for (const CompressedMatrix& c : matrices) {
    const std::int64_t count = there(c, bucket);
    const at::Tensor part = part_of(bucket, c.offset, count);
    if (count == c.n * c.m) {
      reconstruct_one(c, p, q, part, at::Tensor());
      continue;
    }
    const at::Tensor whole = at::empty({c.n * c.m}, bucket.options());
    reconstruct_one(c, p, q, whole, at::Tensor());
    part.copy_(whole.narrow(0, 0, count));
  }
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
