// Whether a sharded model goes together with what else is asked for.
#pragma once

#include <vector>

#include "config/schema/run_config.h"
#include "config/sources/collect.h"
#include "config/toml/diagnostic.h"
#include "hooks/catalog/catalog.h"

namespace hookline {

/// Reports settings that need whole gradients although the model is sharded, settings that a sharded
/// optimizer does not support, and settings that have no effect for a sharded, or unsharded, model. `config`
/// is complete already.
void check_sharding(const Collected& collected, const Catalog& catalog, const RunConfig& config,
                    std::vector<Diagnostic>& diagnostics);

}  // namespace hookline
