#include "launcher/cli/catalog_of.h"

#include <cstdlib>

#include "hooks/program_rows.h"
#include "launcher/supervise/program.h"

namespace hookline {

CatalogOf catalog_of(const std::optional<std::filesystem::path>& executable) {
  CatalogOf result{Catalog::built_in(), true};
  if (!executable) return result;
  for (HookRow& row : read_program_rows(*executable)) {
    result.hooks_may_follow = false;
    try {
      result.catalog.add(std::move(row));
    } catch (const CatalogError& error) {
      throw CatalogError("'" + executable->string() + "': " + error.what());
    }
  }
  return result;
}

CatalogOf catalog_of_named(const std::string& program) {
  if (program.empty()) return catalog_of(std::nullopt);
  return catalog_of(find_program({program}, search_path()).file);
}

}  // namespace hookline
