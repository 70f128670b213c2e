// The files that users start from.
#pragma once

#include <string>

#include "config/schema/run_config.h"
#include "hooks/catalog/catalog.h"

namespace hookline {

/// A config file with every key as a comment that shows its default, below what it means and accepts.
std::string starting_file(const Catalog& catalog);

/// A config file with the values of `config` that are not the defaults, each below what it
/// means. Options of a hook have no such comment.
std::string chosen_file(const RunConfig& config);

}  // namespace hookline
