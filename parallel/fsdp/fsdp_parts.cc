#include "parallel/resume/fsdp_state.h"

#include <ATen/core/grad_mode.h>

#include <string>
#include <utility>

#include "parallel/resume/model_state.h"

namespace hookline {

SavedPart save_fsdp(const Fsdp& fsdp, const ShardedParameters& shards, bool accumulating) {
  SavedPart saved;
  for (const auto& [name, tensor] : tensors_of_model(fsdp.module())) {
    if (const at::Tensor whole = shards.whole(tensor, tensor); whole.defined())
      saved.shared[name] = whole.detach();
  }
  if (!accumulating) return saved;
  for (const auto& [name, gradient] : fsdp.waiting_gradients()) saved.own[kGradientPrefix + name] = gradient;
  return saved;
}

void load_fsdp(Fsdp& fsdp, const ShardedParameters& shards, const SavedPart& saved, Resumption& resumption) {
  const NamedTensors here = tensors_of_model(fsdp.module());
  expect_same_model(
      here, [&](const at::Tensor& tensor) { return shards.sizes_of(tensor); }, saved.shared,
      resumption.checkpoint);
  fsdp.settle();
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : here) {
    const at::Tensor& whole = saved.shared.at(name);
    tensor.detach().copy_(shards.contains(tensor) ? shards.piece(tensor, whole) : whole);
    tensor.mutable_grad() = at::Tensor();
  }
  NamedTensors gradients;
  const std::string prefix = kGradientPrefix;
  for (const auto& [name, gradient] : saved.own) {
    if (name.starts_with(prefix)) gradients[name.substr(prefix.size())] = gradient.to(fsdp.world().device());
  }
  fsdp.set_waiting_gradients(gradients);
}

}  // namespace hookline
