// Reads the config that the launcher resolved for its ranks. It is checked like any other source, and keeps
// the launch's origins.
#include <algorithm>
#include <utility>

#include "config/resolve.h"

namespace hookline {

RunConfig read_resolved(const std::filesystem::path& file, const Catalog& catalog) {
  Sources sources;
  sources.resolved = file;
  sources.allow_program_hooks = false;
  Resolution resolution = resolve(sources, catalog);
  if (resolution.ok()) return std::move(resolution.config);
  const bool is_of_another_version =
      std::any_of(resolution.diagnostics.begin(), resolution.diagnostics.end(), [](const Diagnostic& each) {
        return each.kind == ProblemKind::unknown_key || each.kind == ProblemKind::unknown_wrapper;
      });
  throw ConfigError(resolution.report() + (is_of_another_version
                                               ? "the launcher that wrote this file and the library in this "
                                                 "program are of different versions: build both from the "
                                                 "same version\n"
                                               : ""));
}

}  // namespace hookline
