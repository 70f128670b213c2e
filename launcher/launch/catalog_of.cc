#include "launcher/launch/catalog_of.h"

#include "base/folder_access.h"
#include "base/log.h"
#include "hooks/catalog/hook_rows.h"
#include "launcher/rank/program.h"

namespace hookline {

CatalogOf catalog_of(const std::optional<std::filesystem::path>& executable) {
  CatalogOf result{Catalog::built_in(), true, ""};
  if (!executable) return result;
  if (may_not_read(*executable)) {
    // The kernel can start a program that this user may not read.
    log::warning(
        "this user may not read the program '" + executable->string() +
        "', so its own hooks and their options are checked only when it runs; chmod a+r lets hookline "
        "check them beforehand");
    return result;
  }
  result.build = read_build(*executable);
  for (HookRow& row : read_hook_rows(*executable)) {
    result.hooks_may_follow = false;
    try {
      result.catalog.add(std::move(row));
    } catch (const CatalogError& error) {
      throw CatalogError("'" + executable->string() + "': " + error.what());
    }
  }
  return result;
}

CatalogOf catalog_of_named(const std::string& program, const std::vector<std::string>& plugins) {
  CatalogOf result =
      program.empty() ? catalog_of(std::nullopt) : catalog_of(find_program({program}, search_path()).file);
  for (const std::string& plugin : plugins) add_plugin(plugin, result.build, result.catalog);
  return result;
}

}  // namespace hookline
