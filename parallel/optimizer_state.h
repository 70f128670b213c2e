// An optimizer's state by name.
#pragma once

#include <torch/optim/optimizer.h>

#include "parallel/saved_part.h"

namespace hookline {

/// SGD, Adam, AdamW, Adagrad and RMSprop: options in the notes, and tensors as "state.3.exp_avg", where 3 is the parameter's
/// position over all groups, as in Python's state_dict(). Any other optimizer: what its save(OutputArchive&) writes, as bytes.
SavedPart save_optimizer(torch::optim::Optimizer& optimizer);

/// Throws Error if `saved` is of an optimizer of another kind, or of other parameters.
void load_optimizer(torch::optim::Optimizer& optimizer, const SavedPart& saved,
                    const std::string& checkpoint);

}  // namespace hookline
