// Values for the config that a command line gives.
#pragma once

#include <string>
#include <vector>

#include "config/resolve.h"

namespace hookline {

/// From each `--set KEY=VALUE`. Throws UsageError.
std::vector<Override> overrides_from_sets(const std::vector<std::string>& sets);

/// From each `--state-option KEY=VALUE`. Throws UsageError.
std::vector<Override> overrides_from_state_options(const std::vector<std::string>& state_options);

/// Throws UsageError if two of them give the same key: one would be ignored.
void expect_each_key_once(const std::vector<Override>& overrides);

}  // namespace hookline
