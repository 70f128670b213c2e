#include "python/bindings/chosen_hooks.h"

#include <cstdlib>

#include "config/print.h"
#include "config/resolve.h"
#include "hooks/registry/registry.h"
#include "parallel/rank/rank_status.h"

namespace hookline {

ChosenHooks chosen_hooks(const std::optional<std::filesystem::path>& file) {
  const Catalog& catalog = Registry::instance().catalog();
  ChosenHooks settings;
  RunConfig config;
  const char* const resolved = std::getenv("HOOKLINE_CONFIG");
  if (!file && resolved && *resolved) {
    config = read_resolved(resolved, catalog);
    tell_config_is_read();
  } else {
    Sources sources;
    sources.file = file;
    sources.environment = hookline_environment();
    Resolution resolution = resolve(sources, catalog);
    if (!resolution.ok()) throw ConfigError(resolution.report());
    settings.warnings = resolution.report();
    config = std::move(resolution.config);
  }
  for (const ShownValue& value : shown_values(config))
    if ((value.table == "ddp" || value.table == "ddp.auto" || value.table == "fsdp" ||
         value.table == "training") &&
        value.origin.kind != OriginKind::default_value)
      settings.given.emplace(value.key(), value.value);
  settings.ddp = std::move(config.ddp);
  settings.fsdp_comm_hook = std::move(config.fsdp.comm_hook);
  return settings;
}

}  // namespace hookline
