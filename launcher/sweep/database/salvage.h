// What can be had of a damaged database.
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

/// Puts a sealed database with every sound row in the place of `file`, which may be missing. Relies on no part of the file but
/// the rows themselves: neither its header, nor its schema, nor where its tables and indexes begin. Throws Error, naming a
/// file, and SQLite's exceptions; until it returns `file` is as it was, or the copy is complete.
Salvage salvage(const std::filesystem::path& file);

}  // namespace hookline
