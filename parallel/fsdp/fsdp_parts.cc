#include "parallel/fsdp/fsdp_parts.h"

#include <ATen/core/grad_mode.h>

#include <string>
#include <utility>

#include "parallel/tensors/model_tensors.h"

namespace hookline {
namespace {

/// `shared`: parameters, whole, from rank 0, and buffers, by name, as DDP saves them. `own`: with
/// `accumulates`, gradients that are not yet averaged, whole, as "gradient.NAME". A collective call.
SavedPart save_model(Fsdp& fsdp, const ShardedParameters& shards, bool accumulates) {
  fsdp.settle();  // a forward since the last step may have gathered parameters
  SavedPart saved;
  for (const auto& [name, tensor] : tensors_of_model(fsdp.module())) {
    if (const at::Tensor whole = shards.whole(tensor, tensor); whole.defined())
      saved.shared[name] = whole.detach();
  }
  if (!accumulates) return saved;
  for (const auto& [name, gradient] : fsdp.waiting_gradients()) saved.own[kGradientPrefix + name] = gradient;
  return saved;
}

/// Of any number of ranks, sharded or not. Throws Error if the checkpoint is of another model.
void load_model(Fsdp& fsdp, const ShardedParameters& shards, const SavedPart& saved,
                const Resumption& resumption) {
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

}  // namespace

std::vector<CheckpointPart> checkpoint_parts(const std::shared_ptr<Fsdp>& fsdp,
                                             const std::shared_ptr<ShardedParameters>& shards,
                                             std::function<bool()> accumulates) {
  CheckpointPart model{"model",
                       [fsdp, shards, accumulates = std::move(accumulates)] {
                         return save_model(*fsdp, *shards, accumulates());
                       },
                       [fsdp, shards](const SavedPart& saved, const Resumption& resumption) {
                         load_model(*fsdp, *shards, saved, resumption);
                       }};
  // FSDP's hooks keep no state from step to step. The name is saved so that a checkpoint's manifest shows it,
  // and a run that resumes with a hook of DDP sees that the checkpoint has no state for it.
  CheckpointPart hook{kHookPart,
                      [fsdp] {
                        SavedPart saved;
                        saved.notes = {{"hook", fsdp->communication_stats().pipeline}};
                        return saved;
                      },
                      [](const SavedPart&, const Resumption&) {}};
  return {std::move(model), std::move(hook)};
}

}  // namespace hookline
