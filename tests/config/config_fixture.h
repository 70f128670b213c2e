// Temporary config files for tests, and the results of resolving them.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "config/resolve.h"

namespace hookline {

/// A temporary folder that is the current directory until the test ends, so that messages show relative
/// names.
class TempFolder {
 public:
  TempFolder() : before_(std::filesystem::current_path()) {
    std::string name = (std::filesystem::temp_directory_path() / "hookline-config-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    std::filesystem::current_path(folder_);
  }
  ~TempFolder() {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  static void write(const std::string& name, const std::string& text) {
    std::ofstream(name, std::ios::binary | std::ios::trunc) << text;
  }

 private:
  std::filesystem::path before_, folder_;
};

using Variables = std::vector<std::pair<std::string, std::string>>;

/// The built-in catalog plus a hook that a program registers.
inline Catalog catalog_with_program_hook() {
  Catalog catalog = Catalog::built_in();
  HookRow row = hook_row_from_json(
      R"({"name": "clip", "summary": "Clips.", "options": [)"
      R"({"name": "max_norm", "type": "number", "default": 1.0}, {"name": "label", "type": "text", "default": "a"}]})");
  catalog.add(std::move(row));
  return catalog;
}

/// Resolves `text` as run.toml in the current folder, with variables and `key=value` overrides.
inline Resolution resolve_text(const std::string& text, const Variables& variables = {},
                               const std::vector<std::pair<std::string, std::string>>& sets = {},
                               const Catalog& catalog = Catalog::built_in(),
                               bool allow_program_hooks = false) {
  TempFolder::write("run.toml", text);
  Sources sources;
  sources.file = "run.toml";
  sources.environment = variables;
  for (const auto& [key, value] : sets) sources.overrides.push_back({key, value, "--set " + key});
  sources.allow_program_hooks = allow_program_hooks;
  return resolve(sources, catalog);
}

inline std::string report_of(const std::string& text, const Variables& variables = {},
                             const std::vector<std::pair<std::string, std::string>>& sets = {}) {
  return resolve_text(text, variables, sets).report();
}

}  // namespace hookline
