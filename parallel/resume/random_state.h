// The positions of torch's default random streams.
#pragma once

#include <c10/core/Device.h>

#include "parallel/tensors/saved_part.h"

namespace hookline {

/// Own: "cpu", and "cuda" if `device` is one: the states of the default generators. Source:
/// torch.get_rng_state().
SavedPart save_random(c10::Device device);

/// A rank that has no part of the checkpoint keeps its streams, which is told.
void load_random(c10::Device device, const SavedPart& saved, Resumption& resumption);

}  // namespace hookline
