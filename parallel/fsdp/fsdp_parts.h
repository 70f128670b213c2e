// A sharded model's state by name, as if it were whole.
#pragma once

#include "parallel/fsdp/fsdp.h"
#include "parallel/shards/sharded_parameters.h"
#include "parallel/tensors/saved_part.h"

namespace hookline {

/// `shared`: parameters, whole, from rank 0, and buffers, by name, as save_model() has them of a model that
/// is not sharded. `own`: with `accumulating`, gradients that are not yet averaged, whole, as
/// "gradient.NAME". A collective call.
SavedPart save_fsdp(const Fsdp& fsdp, const ShardedParameters& shards, bool accumulating);

/// Of any number of ranks, sharded or not. Throws Error if the checkpoint is of another model.
void load_fsdp(Fsdp& fsdp, const ShardedParameters& shards, const SavedPart& saved, Resumption& resumption);

}  // namespace hookline
