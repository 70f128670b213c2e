// The checkpoints that an argument of a verb names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace hookline {

/// `folder` itself if it is a checkpoint, else those in it, newest first. Throws UsageError if there are
/// none.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& folder);

std::uint64_t bytes_of(const Manifest& manifest);

}  // namespace hookline
