// An optimizer's state by name.
#pragma once

#include <torch/optim/optimizer.h>

#include <vector>

#include "parallel/shards/sharded_parameters.h"
#include "parallel/tensors/saved_part.h"

namespace hookline {

/// SGD, Adam, AdamW, Adagrad and RMSprop: options in the notes, and tensors as "state.3.exp_avg", where 3 is
/// the parameter's position over all groups, as in Python's state_dict(). Any other optimizer: what its
/// save(OutputArchive&) writes, as bytes. Of parameters in `shards` the tensors are saved whole, by rank 0: a
/// collective call then; bytes are each rank's own.
SavedPart save_optimizer(torch::optim::Optimizer& optimizer, const ShardedParameters* shards = nullptr);

/// Cuts the optimizer's state for sharded `parameters` to this rank's pieces where it is still whole, because
/// a step, a resume or the constructor (Adagrad's) made it before the model or the optimizer was sharded.
/// Only for the optimizers named above.
void cut_optimizer(torch::optim::Optimizer& optimizer, const ShardedParameters& shards,
                   const std::vector<at::Tensor>& parameters);

/// What of a run is sharded.
enum class Sharding { model, optimizer };

/// Throws Error if the optimizer steps any of the `sharded` parameters and computes with whole ones, as LBFGS
/// does. If `warns`, logs a warning about an optimizer that hookline does not know, since that one may do so,
/// too.
void expect_it_takes_pieces(torch::optim::Optimizer& optimizer, const std::vector<at::Tensor>& sharded,
                            Sharding sharding, bool warns);

/// Throws Error if `saved` is of an optimizer of another kind, or of other parameters.
void load_optimizer(torch::optim::Optimizer& optimizer, const SavedPart& saved, const std::string& checkpoint,
                    const ShardedParameters* shards = nullptr);

}  // namespace hookline
