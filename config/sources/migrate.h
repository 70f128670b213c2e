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
  std::vector<std::string> changes;  // for people; empty: at most the version number changed
};

/// Migrates a file to the current schema version. A file without a version has version 1. Throws EditError.
Migrated migrate(const SourceText& text);

/// The schema version that the file states; 1 if it states none. Throws EditError if this hookline does not
/// know the version.
std::int64_t schema_version_of(const SourceText& text);

}  // namespace hookline
