// Rules between the options of a hook, which no single option's row can state.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "hooks/catalog/option.h"

namespace hookline {

/// A combination of options that `hook` (canonical name) can't run with.
struct OptionConflict {
  std::string option;   // the one to change
  std::string problem;  // "start_powerSGD_iter must be …"
  std::string why;
};

/// Checks options that are complete and have passed check_value; nothing if they go together, or if `hook`
/// has no rules. Config and the hook's factory both call it.
std::optional<OptionConflict> find_conflict(std::string_view hook, const OptionMap& options);

/// The same as one text: "PROBLEM: WHY".
std::optional<std::string> check_options(std::string_view hook, const OptionMap& options);

}  // namespace hookline
