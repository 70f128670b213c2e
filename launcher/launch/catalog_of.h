// The catalog that a verb works with.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/resolve.h"
#include "hooks/catalog/catalog.h"

namespace hookline {

struct CatalogOf {
  Catalog catalog;
  /// True if the program names no hooks of its own (a script or an interpreter can't), or if its file can't
  /// be read: it may then still register some when it runs.
  bool hooks_may_follow = true;
  std::string build;  // as read_build gives it; empty if unknown

  /// Makes `sources` resolve for that program.
  void apply_to(Sources& sources) const {
    sources.allow_program_hooks = hooks_may_follow;
    sources.program_build = build;
  }
};

/// hookline's own hooks and those of the executable, if one is given. Warns if this user may only execute it.
/// Throws CatalogError, naming the file.
CatalogOf catalog_of(const std::optional<std::filesystem::path>& executable);

/// The same for the value of `--program`, which is looked up as `launch` does (empty: no program), with the
/// hooks of `plugins` added. Also throws ProgramError.
CatalogOf catalog_of_named(const std::string& program, const std::vector<std::string>& plugins = {});

}  // namespace hookline
