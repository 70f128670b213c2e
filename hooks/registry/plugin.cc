#include "hooks/registry/plugin.h"

#include <dlfcn.h>

#include <utility>
#include <vector>

#include "hooks/build_stamp.h"
#include "hooks/catalog/hook_rows.h"
#include "hooks/registry/register.h"

namespace hookline {
namespace {

// What plug-ins must be built with. The launcher reads it in the program's file.
[[gnu::used, gnu::retain, gnu::section("hookline_build")]] const char program_build[] = HOOKLINE_BUILD_STAMP;

/// What the plug-in registers while it is loaded.
std::vector<detail::CollectedHook> hooks_of(const std::filesystem::path& file) {
  detail::RegistrationCollector collector;
  // RTLD_NOW: a missing symbol is an error here, not in the middle of a step.
  if (!::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    throw HookError(
        "plug-in '" + file.string() + "' can't be loaded: " + ::dlerror() +
        "\n  a plug-in links hookline::plugin; the program that loads it links hookline::hookline, which "
        "exports what plug-ins need");
  }
  return std::move(collector.hooks);
}

}  // namespace

void load_plugin(const std::filesystem::path& file, Registry& registry) {
  Registry extended = registry;
  try {
    Catalog catalog = registry.catalog();
    add_plugin(file, program_build, catalog);
    if (catalog.hooks().size() == registry.catalog().hooks().size()) return;
    for (detail::CollectedHook& hook : hooks_of(file)) {
      HookRow row = hook_row_from_json(hook.row_json);
      row.plugin = file.string();
      extended.add(std::move(row), std::move(hook.factory));
    }
    const std::size_t registered = extended.catalog().hooks().size(), shown = catalog.hooks().size();
    if (registered < shown) {
      throw HookError(
          "plug-in '" + file.string() +
          "' did not register its hooks with this program: it has a copy of hookline of its own, or was "
          "loaded by other means before; link it with hookline::plugin, and with no other of "
          "hookline's libraries");
    }
    if (registered > shown) {
      throw HookError(
          "plug-in '" + file.string() +
          "' registered hooks that its file does not show: a library that it links has some; name that "
          "library in [ddp] plugins, too, before this one");
    }
  } catch (const CatalogError& error) {
    throw HookError(error.what());
  }
  registry = std::move(extended);
}

}  // namespace hookline
