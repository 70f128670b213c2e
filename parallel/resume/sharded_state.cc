#include "parallel/resume/sharded_state.h"

#include <ATen/core/grad_mode.h>

#include <string>
#include <utility>

#include "parallel/resume/model_state.h"

namespace hookline {

SavedPart save_sharded(const Sharded& sharded, const ShardedParameters& shards, bool accumulating) {
  SavedPart saved;
  for (const auto& [name, tensor] : tensors_of_model(sharded.module())) {
    if (const at::Tensor whole = shards.whole(tensor, tensor); whole.defined())
      saved.shared[name] = whole.detach();
  }
  if (!accumulating) return saved;
  for (const auto& [name, gradient] : sharded.waiting_gradients())
    saved.own[kGradientPrefix + name] = gradient;
  return saved;
}

void load_sharded(Sharded& sharded, const ShardedParameters& shards, const SavedPart& saved,
                  Resumption& resumption) {
  const NamedTensors here = tensors_of_model(sharded.module());
  expect_same_model(
      here, [&](const at::Tensor& tensor) { return shards.sizes_of(tensor); }, saved.shared,
      resumption.checkpoint);
  sharded.settle();
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : here) {
    const at::Tensor& whole = saved.shared.at(name);
    tensor.detach().copy_(shards.contains(tensor) ? shards.piece(tensor, whole) : whole);
    tensor.mutable_grad() = at::Tensor();
  }
  NamedTensors gradients;
  const std::string prefix = kGradientPrefix;
  for (const auto& [name, gradient] : saved.own) {
    if (name.starts_with(prefix))
      gradients[name.substr(prefix.size())] = gradient.to(sharded.world().device());
  }
  sharded.set_waiting_gradients(gradients);
}

}  // namespace hookline
