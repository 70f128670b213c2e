// Samples that a loader repeats so that every rank gets the same number, where a sum or an average over the
// ranks counts them twice.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "parallel/data/training_place.h"

namespace hookline {

/// The loader whose repeated samples `tensor` may contain: the one whose batch is in hand, or one whose
/// finished loop produced the tensor. Null if there is none. `adds`: the ranks sum the tensor, whatever its
/// shape.
const detail::EpochPlan* loader_that_repeats(const TrainingPlace& place, const at::Tensor& tensor, bool adds);

/// A warning of `repeated` samples, which says how to leave them out. `call`: what is about to count them,
/// such as "gather".
std::string repeated_samples_warning(const std::string& call, std::int64_t repeated, std::int64_t world_size);

}  // namespace hookline
