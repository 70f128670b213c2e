// How far a data loader has come, by name.
#pragma once

#include "parallel/data/epoch_plan.h"
#include "parallel/tensors/saved_part.h"

namespace hookline {

SavedPart save_position(const detail::EpochPlan& plan, int ranks);

/// `by_hand`: by load_state.
/// If the batch size or the number of ranks has changed, the loader resumes at the last batch that starts at
/// or before the saved sample; a warning says if samples repeat.
void load_position(detail::EpochPlan& plan, const SavedPart& saved, Resumption& resumption, bool by_hand);

}  // namespace hookline
