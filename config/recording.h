// The names of the files of recorded gradients, on which the launcher and the ranks agree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hookline {

/// step0007.rank1.safetensors: a rank's own gradients in a step.
std::string gradient_file_name(std::int64_t step, int rank);

/// A file of recorded gradients, or, without a rank, of what a hook made of them.
struct RecordedFile {
  int step = 0;
  std::optional<int> rank;
};

/// Nothing if `name` is neither.
std::optional<RecordedFile> parse_recorded_name(std::string_view name);

/// step0007.safetensors: what a hook made of a step's gradients.
std::string replayed_file_name(std::int64_t step);

}  // namespace hookline
