// What of a DDP model belongs in a checkpoint: parameters, buffers, gradients that wait, buckets, and its
// hook's state.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "parallel/ddp/ddp.h"
#include "parallel/tensors/saved_part.h"

namespace hookline {

/// The parts "model" and "hook", to be saved and loaded in this order. What can't be restored of a hook
/// is logged before the first forward, since a hook may be registered until then. `accumulates`: whether
/// gradients wait for more, and belong in a checkpoint.
std::vector<CheckpointPart> checkpoint_parts(const std::shared_ptr<Ddp>& ddp,
                                             std::function<bool()> accumulates);

}  // namespace hookline
