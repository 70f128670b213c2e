// From file, environment and command line to one checked RunConfig.
#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "config/schema/run_config.h"
#include "config/sources/sources.h"
#include "config/toml/diagnostic.h"
#include "hooks/catalog/catalog.h"

namespace hookline {

/// The outcome: `config` is meaningful only if ok().
struct Resolution {
  RunConfig config;  ///< With defaults filled in.
  /// Errors and warnings, in the order of the file, then those of the other sources.
  std::vector<Diagnostic> diagnostics;
  std::vector<std::string> files;     ///< The files read: included files first, the named file last.
  std::vector<std::string> profiles;  ///< The profiles that these files define.

  /// True if no diagnostic is an error.
  bool ok() const;
  /// Every diagnostic, rendered one after the other.
  std::string report() const;
};

/// Reads, merges and validates; reports every problem at once. Never throws for bad input. The hooks of the
/// plug-ins that the config names are added to `catalog`'s; a plug-in's path is relative to the file that
/// names it, elsewhere to the current folder.
Resolution resolve(const Sources& sources, const Catalog& catalog);

/// A config that can't be used; what() is the whole report.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads the file that the launcher wrote, HOOKLINE_CONFIG: no environment is applied again, and the origins
/// are those of the launch. Throws ConfigError. `catalog` must hold the program's own hooks.
RunConfig read_resolved(const std::filesystem::path& file, const Catalog& catalog);

}  // namespace hookline
