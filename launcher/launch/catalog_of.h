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
  /// The program names no hooks of its own, as a script or an interpreter can't, or its file can't be read: it may yet register
  /// some when it runs.
  bool hooks_may_follow = true;
  std::string build;  // what the executable was built with, as read_build says it

  /// Has `sources` resolved for that program.
  void apply_to(Sources& sources) const {
    sources.allow_program_hooks = hooks_may_follow;
    sources.program_build = build;
  }
};

/// hookline's own hooks and those of the executable, if one is given. One that this user may only execute gets a warning. Throws
/// CatalogError, naming the file.
CatalogOf catalog_of(const std::optional<std::filesystem::path>& executable);

/// The same for the value of `--program`, which is looked up as `launch` does (empty: none), and with the hooks of
/// `plugins`. Throws ProgramError too.
CatalogOf catalog_of_named(const std::string& program, const std::vector<std::string>& plugins = {});

}  // namespace hookline
