#include "parallel/world/tensor_exchange.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <string>

#include "base/error.h"
#include "parallel/world/model_signature.h"

namespace hookline {
namespace {

/// The tensor's elements, dense and contiguous, once all ranks have agreed that their tensors match. A rank
/// with an invalid tensor takes part in the agreement, too, so that all ranks throw.
at::Tensor agreed_tensor(World& world, const std::string& call, const at::Tensor& tensor, bool as_row,
                         Signature signature = {}) {
  const char* const wrong = !tensor.defined()                 ? "undefined"
                            : tensor.layout() != at::kStrided ? "sparse"
                            : tensor.is_quantized()           ? "quantized"
                                                              : nullptr;
  const std::string name = "the tensor given to " + call;
  at::Tensor plain;
  if (!wrong) {
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous();
    if (as_row && plain.dim() == 0) plain = plain.reshape({1});
  }
  signature.push_back(wrong ? SignatureLine{name, wrong} : signature_line(name, plain));
  agree_on_signature(world, signature);
  if (wrong)
    throw Error(call + "() takes a dense tensor, and this one is " + wrong +
                ": give it a defined tensor, such as what to_dense() or dequantize() returns");
  return plain;
}

}  // namespace

at::Tensor gather_tensor(World& world, const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const at::Tensor own = agreed_tensor(world, "gather", tensor, /*as_row=*/true);
  if (own.numel() == 0) return at::cat(std::vector<at::Tensor>(static_cast<std::size_t>(world.size()), own));
  // Send bytes, since Gloo does not know every dtype, and only copies here.
  const at::Tensor bytes = own.reshape({-1}).view(at::kByte);
  std::vector<std::int64_t> sizes = own.sizes().vec();
  sizes[0] *= world.size();
  return at::cat(world.all_gather(bytes)).view(own.scalar_type()).view(sizes);
}

at::Tensor reduce_tensor(World& world, const at::Tensor& tensor, std::string_view reduction) {
  const at::NoGradGuard no_grad;
  const std::string quoted = '"' + std::string(reduction) + '"';
  const at::Tensor own =
      agreed_tensor(world, "reduce", tensor, /*as_row=*/false, {{"the reduction given to reduce", quoted}});
  if (reduction != "sum" && reduction != "mean")
    throw Error("reduce() can't do '" + std::string(reduction) + "': it takes \"sum\" or \"mean\"");
  if (!World::can_add_up(own.scalar_type()))
    World::throw_cannot_add_up("reduce", own.scalar_type(), "gather");
  const at::Tensor copy = own.clone(at::MemoryFormat::Contiguous);
  if (copy.numel() > 0) world.all_reduce(copy);
  return reduction == "mean" ? copy.div(world.size()) : copy;
}

}  // namespace hookline
