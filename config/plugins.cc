#include "config/plugins.h"

#include <algorithm>
#include <filesystem>

#include "config/schema.h"
#include "hooks/hook_rows.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

/// The place from which the source's paths count.
fs::path folder_of(const Given& given, const Sources& sources) {
  const bool of_file = given.layer == OriginKind::file && sources.file;
  return of_file ? fs::current_path() / sources.file->parent_path() : fs::current_path();
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
    const std::string file = (folder_of(given, sources) / name).lexically_normal().string();
    if (name.empty()) {
      report("the name of a plug-in is empty", "must be the path of a shared library");
      continue;
    }
    if (std::count(plugins.files.begin(), plugins.files.end(), file)) {
      report("plug-in '" + file + "' is named twice", "keep one of them");
      continue;
    }
    plugins.files.push_back(file);
    try {
      add_plugin(file, sources.program_build, plugins.catalog);
    } catch (const CatalogError& error) {
      // "what is wrong: why"
      const std::string text = error.what();
      const std::size_t colon = text.find(": ");
      report(text.substr(0, colon), colon == text.npos ? "" : text.substr(colon + 2));
    }
  }
  return plugins;
}

}  // namespace hookline
