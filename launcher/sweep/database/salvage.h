// Recovers the sound rows of a damaged database.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace hookline {

struct Salvage {
  std::filesystem::path
      kept;  // a copy of the damaged file, with SQLite's log beside it; empty if there was neither
  std::set<std::string> ids;  // of the trials whose rows are sound
};

/// Replaces `file`, which may be missing, by a sealed database with all of its sound rows. Needs only
/// the right page size: it reads each page with rows by itself, and ignores the file's header, schema, and
/// the positions of tables and indexes. Throws Error or filesystem_error, naming a file, and SQLite's
/// exceptions; `file` is then unchanged, or a complete copy of it exists.
Salvage salvage(const std::filesystem::path& file);

}  // namespace hookline
