// What of a sharded model belongs in a checkpoint, as if it were whole.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "parallel/fsdp/fsdp.h"
#include "parallel/shards/sharded_parameters.h"
#include "parallel/tensors/saved_part.h"

namespace hookline {

/// The parts "model", under the names that DDP saves, and "hook". `accumulates`: whether gradients wait for
/// more, and belong in a checkpoint.
std::vector<CheckpointPart> checkpoint_parts(const std::shared_ptr<Fsdp>& fsdp,
                                             const std::shared_ptr<ShardedParameters>& shards,
                                             std::function<bool()> accumulates);

}  // namespace hookline
