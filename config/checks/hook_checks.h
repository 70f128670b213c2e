// The chosen hook, its wrapper and its options: what the catalog knows of them, and whether they go together.
#pragma once

#include <vector>

#include "config/schema/run_config.h"
#include "config/sources/collect.h"
#include "config/toml/diagnostic.h"
#include "hooks/catalog/catalog.h"

namespace hookline {

/// What may be true of hooks that the catalog lacks.
struct UnknownHooks {
  bool program_may_have_them = false;  // see Sources::allow_program_hooks
  bool plugins_were_read = true;       // false: a plug-in that may have them was reported as broken already
};

/// Fills config.ddp's hook, wrapper and options, and their origins. `config` holds all other values already.
void resolve_hook(const Collected& collected, const Catalog& catalog, UnknownHooks unknown, RunConfig& config,
                  std::vector<Diagnostic>& diagnostics);

}  // namespace hookline
