#include "config/checks/plugins.h"

#include <algorithm>
#include <filesystem>

#include "config/schema/schema.h"
#include "config/toml/source_text.h"
#include "hooks/catalog/hook_rows.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

/// The absolute path of a plug-in, with symbolic links resolved.
std::string path_of(const std::string& name, const Given& given) {
  const fs::path relative = path_given(name, given);
  std::error_code error;
  fs::path path = fs::weakly_canonical(fs::absolute(relative, error), error);
  return (error || path.empty() ? relative : path).string();
}

}  // namespace

Plugins read_plugins(const Collected& collected, const Sources& sources, const Catalog& catalog) {
  Plugins plugins{{}, catalog, {}};
  const auto found = collected.keys.find("ddp.plugins");
  if (found == collected.keys.end()) return plugins;
  const Given& given = found->second.back();
  std::vector<Diagnostic> reported_by_the_key_itself;
  const auto value =
      checked_value(given, find_key("ddp", "plugins")->option, "ddp", reported_by_the_key_itself);
  if (!value) return plugins;
  const auto report = [&](std::string message, std::string note) {
    plugins.problems.push_back(
        diagnostic_at(given.place, Severity::error, std::move(message), std::move(note)));
  };
  for (const std::string& name : std::get<std::vector<std::string>>(*value)) {
    if (name.empty() || name.find('\0') != name.npos) {
      report(name.empty() ? "the name of a plug-in is empty" : "the name of a plug-in holds a zero byte",
             "must be the path of a shared library");
      continue;
    }
    const std::string file = path_of(name, given);
    if (std::count(plugins.files.begin(), plugins.files.end(), file)) {
      report("plug-in '" + file + "' is named twice", "keep one of them");
      continue;
    }
    if (first_invalid_byte(file)) {
      report("the path of plug-in '" + file + "' is not UTF-8",
             "rename the file or its folder: ranks can't be given such a path");
      continue;
    }
    plugins.files.push_back(file);
    try {
      add_plugin(file, sources.program_build, plugins.catalog);
    } catch (const PluginError& error) {
      report(error.problem(), error.why());
    }
  }
  return plugins;
}

}  // namespace hookline
