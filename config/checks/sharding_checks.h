// Whether a sharded model goes together with what else is asked for.
#pragma once

#include <vector>

#include "config/schema/run_config.h"
#include "config/sources/collect.h"
#include "config/toml/diagnostic.h"
#include "hooks/catalog/catalog.h"

namespace hookline {

/// Reports what needs whole gradients although the model is sharded, what does not go with a sharded optimizer, and what has no
/// effect because the model is sharded, or is not. `config` holds all values already.
void check_sharding(const Collected& collected, const Catalog& catalog, const RunConfig& config,
                    std::vector<Diagnostic>& diagnostics);

}  // namespace hookline
