// The schema of config files as editors and validators know schemas.
#pragma once

#include <string>

#include "hooks/catalog/catalog.h"

namespace hookline {

/// A JSON Schema (draft 7) of a config file read as TOML: keys, types, bounds, allowed words and help, with
/// the hooks and their options of `catalog`. What it accepts may still be refused: it knows nothing of
/// combinations.
std::string json_schema(const Catalog& catalog);

}  // namespace hookline
