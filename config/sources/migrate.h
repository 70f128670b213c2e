// Files of older versions of the schema, and what has become of their keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/toml/source_text.h"

namespace hookline {

/// What `table.name`, a key of an older version, is now; nothing if there never was one.
std::optional<std::string> former_key(const std::string& table, const std::string& name);

struct Migrated {
  std::string text;                  // of today's version, its comments and order kept
  std::vector<std::string> changes;  // one a line; empty: nothing but the version's number, if that
};

/// A file that does not say its version is of the first one. Throws EditError.
Migrated migrate(const SourceText& text);

/// The version that the file says it is of; 1 if it says none. Throws EditError for what is no version that this
/// hookline knows.
std::int64_t schema_version_of(const SourceText& text);

}  // namespace hookline
