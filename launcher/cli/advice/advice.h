// What `hookline advise` has found, and how it is shown. Torch-free.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "launcher/cli/advice/link_text.h"

namespace hookline {

/// Where the predictions are for; neither: for the run that was measured.
struct AskedFor {
  std::optional<LinkText> link;
  std::optional<std::int64_t> ranks;
};

/// Of each model that a program has prepared, by what its ranks have written (parallel/choice/choices.h): {"chosen", "parameters",
/// "gradient_bytes", "ranks", "hosts", "backend", "settings": [{"name", "predicted_seconds", "measured_seconds", "margin", "known_by"}],
/// "elsewhere": {"link", "ranks", "hosts", "best", "settings": [{"name", "predicted_seconds"}]}}; "elsewhere" where it was asked for.
/// Throws Error if the file is none, and UsageError for ranks on a network that nothing is known of.
nlohmann::ordered_json advice_in(const std::filesystem::path& file, const AskedFor& asked);

/// The same as a table for people.
std::string advice_text(const nlohmann::ordered_json& advice);

}  // namespace hookline
