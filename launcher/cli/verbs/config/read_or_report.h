// The file that a verb looks at or changes.
#pragma once

#include <filesystem>
#include <optional>

#include "config/toml/source_text.h"

namespace hookline {

/// Reads `file`. If it can't be a config, reports why and returns nothing.
std::optional<SourceText> read_or_report(const std::filesystem::path& file);

}  // namespace hookline
