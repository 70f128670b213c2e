#include "hooks/catalog/hook_rows.h"

#include <algorithm>
#include <utility>

#include "base/folder_access.h"
#include "hooks/catalog/elf_section.h"

namespace hookline {
namespace {

/// The texts in a section. The compiler aligns them: zero bytes in between mean nothing.
std::vector<std::string> texts_in(const std::filesystem::path& file, const char* section) {
  const std::string bytes = read_elf_section(file, section).value_or("");
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\0', at), bytes.size());
    if (end > at) texts.push_back(bytes.substr(at, end - at));
    at = end + 1;
  }
  return texts;
}

}  // namespace

std::vector<HookRow> read_hook_rows(const std::filesystem::path& file) {
  std::vector<HookRow> rows;
  for (const std::string& text : texts_in(file, kHookRowsSection)) {
    try {
      rows.push_back(hook_row_from_json(text));
    } catch (const CatalogError& error) {
      throw CatalogError(file.string() + ": " + error.what());
    }
  }
  return rows;
}

std::string read_build(const std::filesystem::path& file) {
  std::vector<std::string> builds = texts_in(file, kBuildSection);
  std::sort(builds.begin(), builds.end());
  builds.erase(std::unique(builds.begin(), builds.end()), builds.end());
  std::string joined;
  for (const std::string& build : builds) joined += (joined.empty() ? "" : " and ") + build;
  return joined;
}

void add_plugin(const std::filesystem::path& file, const std::string& program_build, Catalog& catalog) {
  const std::string name = "plug-in '" + file.string() + "'";
  std::error_code error;
  if (const auto access = find_access_problem(file))
    throw PluginError(name + " can't be reached: " + access->why, access->advice);
  const bool is_there = std::filesystem::exists(file, error);
  if (error) throw PluginError(name + " can't be read", error.message());
  if (!is_there) {
    throw PluginError(
        name + " is not there",
        "a relative path in a config file counts from that file's folder, any other from the current folder");
  }
  for (const HookRow& known : catalog.hooks()) {
    if (!known.plugin.empty() && std::filesystem::equivalent(known.plugin, file, error)) return;
  }
  std::vector<HookRow> rows;
  try {
    const bool is_program = read_elf_section(file, ".interp").has_value();
    const bool has_rows = read_elf_section(file, kHookRowsSection).has_value();
    if (is_program) throw CatalogError("it is a program, not a shared library");
    if (!has_rows) {
      throw CatalogError(
          "it registers no hook: a plug-in is a shared library with HOOKLINE_REGISTER_HOOK in it");
    }
    // Check this before reading the rows, whose form may differ between versions of hookline.
    const std::string build = read_build(file);
    if (!program_build.empty() && build != program_build) {
      throw CatalogError("it was built with " + (build.empty() ? "an unknown torch" : build) +
                         "; the program was built with " + program_build + ": build both with the same");
    }
    rows = read_hook_rows(file);
    for (HookRow& row : rows) {
      row.plugin = file.string();
      catalog.add(std::move(row));
    }
  } catch (const CatalogError& problem) {
    throw PluginError(name + " can't be used", problem.what());
  }
}

}  // namespace hookline
