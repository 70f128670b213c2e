#include "hooks/catalog/option_rules.h"

namespace hookline {
namespace {

template <typename T>
T option(const OptionMap& options, const char* name) {
  return std::get<T>(options.at(name));
}

std::optional<OptionConflict> power_sgd_conflict(const OptionMap& options) {
  const bool keeps_state = option<bool>(options, "use_error_feedback") || option<bool>(options, "warm_start");
  if (!keeps_state || option<std::int64_t>(options, "start_powerSGD_iter") > 1) return std::nullopt;
  return OptionConflict{"start_powerSGD_iter",
                        "start_powerSGD_iter must be at least 2 with error feedback or warm start",
                        "DDP rebuilds its buckets after the first step"};
}

}  // namespace

std::optional<OptionConflict> find_conflict(std::string_view hook, const OptionMap& options) {
  if (hook == "power_sgd" || hook == "batched_power_sgd") return power_sgd_conflict(options);
  return std::nullopt;
}

std::optional<std::string> check_options(std::string_view hook, const OptionMap& options) {
  const auto conflict = find_conflict(hook, options);
  return conflict ? std::optional(conflict->problem + ": " + conflict->why) : std::nullopt;
}

}  // namespace hookline
