// What an executable or a shared library says of its hooks, read without running or loading it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hooks/catalog/catalog.h"

namespace hookline {

/// Names of the ELF sections into which HOOKLINE_REGISTER_HOOK puts NUL-terminated texts: one JSON row per
/// hook, and what the code was built with.
inline constexpr const char* kHookRowsSection = "hookline_hooks";
inline constexpr const char* kBuildSection = "hookline_build";

/// The rows in `file`, in the order of the section; none if `file` is not a 64-bit ELF file (a script, say)
/// or registers no hook. Throws CatalogError, naming the file, when it can't be read or holds a broken row.
std::vector<HookRow> read_hook_rows(const std::filesystem::path& file);

/// "torch 2.11.0, hookline 0.1.0": what the hookline code in `file` was built with; two builds in one file
/// are joined by " and ". Empty if there is none. Throws CatalogError as above.
std::string read_build(const std::filesystem::path& file);

/// A plug-in can't be used. what() is "PROBLEM: WHY".
class PluginError : public CatalogError {
 public:
  PluginError(const std::string& problem, const std::string& why)
      : CatalogError(problem + ": " + why), problem_(problem), why_(why) {}

  const std::string& problem() const { return problem_; }  // "plug-in 'FILE' is not there"
  const std::string& why() const { return why_; }          // or what to do

 private:
  std::string problem_, why_;
};

/// Adds the hooks of the plug-in `file` to `catalog`, with HookRow::plugin set to it; nothing if `catalog`
/// has them from this file already. `program_build` is what the program that is to load it was built with, as
/// read_build says it; empty: not known, and not compared.
/// Throws PluginError if the file is missing, registers no hook or a taken name, or was built with something
/// else.
void add_plugin(const std::filesystem::path& file, const std::string& program_build, Catalog& catalog);

}  // namespace hookline
