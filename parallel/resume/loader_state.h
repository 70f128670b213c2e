// How far a data loader has come, by name.
#pragma once

#include "parallel/data/epoch_plan.h"
#include "parallel/tensors/saved_part.h"

namespace hookline {

SavedPart save_position(const detail::EpochPlan& plan, int ranks);

/// `by_hand`: by load_state.
/// With other batches (another size, another number of ranks) the loader goes on at the last of its own batches that begins no
/// later in the epoch, which is told if it is not at the same sample.
void load_position(detail::EpochPlan& plan, const SavedPart& saved, Resumption& resumption, bool by_hand);

}  // namespace hookline
