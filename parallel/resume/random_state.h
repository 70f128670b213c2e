// The positions of torch's default random streams.
#pragma once

#include <c10/core/Device.h>

#include "parallel/tensors/saved_part.h"

namespace hookline {

/// `own`: the states of the default generators, as "cpu" and, if `device` is a GPU, "cuda". Source:
/// torch.get_rng_state().
SavedPart save_random(c10::Device device);

/// Leaves a stream as it is if the checkpoint does not hold it for this rank, and adds it to
/// `resumption.resets`.
void load_random(c10::Device device, const SavedPart& saved, Resumption& resumption);

}  // namespace hookline
