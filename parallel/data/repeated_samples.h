// Samples that a loader repeats so that every rank gets as many, where a sum or an average over the ranks counts them twice.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "parallel/data/training_place.h"

namespace hookline {

/// The loader whose repeats `tensor` holds: it is of the batch of the loader in hand, or of what a loop over a loader has
/// collected. Null if no loader's are in it. `adds`: the ranks add the tensor up, whatever its shape is.
const detail::EpochPlan* loader_that_repeats(const TrainingPlace& place, const at::Tensor& tensor, bool adds);

/// A warning of `repeated` samples, which says how to leave them out. `call`: what is about to count them, as "gather".
std::string repeated_samples_warning(const std::string& call, std::int64_t repeated, std::int64_t world_size);

}  // namespace hookline
