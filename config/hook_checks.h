// The chosen hook, its wrapper and its options: what the catalog knows of them, and whether they go together.
#pragma once

#include <vector>

#include "config/collect.h"
#include "config/diagnostic.h"
#include "config/run_config.h"
#include "hooks/catalog.h"

namespace hookline {

/// Fills config.ddp's hook, wrapper and options, and their origins. `config` holds all other values already.
void resolve_hook(const Collected& collected, const Catalog& catalog, bool allow_program_hooks,
                  RunConfig& config, std::vector<Diagnostic>& diagnostics);

}  // namespace hookline
