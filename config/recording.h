// The names of the files of recorded gradients, on which the launcher and the ranks agree.
#pragma once

#include <cstdint>
#include <string>

namespace hookline {

/// step0007.rank1.safetensors: a rank's own gradients in a step.
std::string gradient_file_name(std::int64_t step, int rank);

/// step0007.safetensors: what a hook made of a step's gradients.
std::string replayed_file_name(std::int64_t step);

}  // namespace hookline
