// Whether a sharded model goes together with what else is asked for.
#pragma once

#include <vector>

#include "config/collect.h"
#include "config/diagnostic.h"
#include "config/run_config.h"

namespace hookline {

/// Reports what needs whole gradients although the model is sharded, and what has no effect because it is, or is not.
/// `config` holds all values already.
void check_sharding(const Collected& collected, const RunConfig& config,
                    std::vector<Diagnostic>& diagnostics);

}  // namespace hookline
