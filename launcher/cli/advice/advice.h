// What `hookline advise` has found, and how it is shown. Torch-free.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "config/schema/link_text.h"

namespace hookline {

/// Which network and which number of ranks to predict for; if neither is set, only for the run that was
/// measured.
struct AskedFor {
  std::optional<NamedLink> link;
  std::optional<std::int64_t> ranks;
};

/// Reads the advice that ranks wrote (parallel/choice/choices.h). For each prepared model: {"chosen", "step",
/// "exchanges", "measuring_seconds", "parameters", "gradient_bytes", "ranks", "hosts", "backend", "settings":
/// [{"name", "hook", "predicted_seconds", "measured_seconds", "margin", "known_by", "bucket_bytes",
/// "given_up"}], "elsewhere": {"link", "ranks", "hosts", "best", "settings": [{"name",
/// "predicted_seconds"}]}}. A setting has "margin" and "known_by" only with a prediction, "bucket_bytes" only
/// with buckets of its own, and "given_up" only if that is true; there is an "elsewhere" only if `asked`.
/// Throws Error if the file holds no advice, and UsageError if nothing is known of the network between the
/// requested ranks, or if the prediction that `asked` needs can't be made since the model was measured on a
/// GPU.
nlohmann::ordered_json advice_in(const std::filesystem::path& file, const AskedFor& asked);

/// The same as a table for people.
std::string advice_text(const nlohmann::ordered_json& advice);

}  // namespace hookline
