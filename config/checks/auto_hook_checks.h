// What [ddp.auto] may say, and what it goes with.
#pragma once

#include <vector>

#include "config/schema/run_config.h"
#include "config/sources/collect.h"
#include "hooks/catalog/catalog.h"

namespace hookline {

/// Reports hooks in [ddp.auto] that can't be chosen, what does not go with comm_hook = "auto", and a table
/// that has no effect. `all_hooks_known`: every plug-in was read.
void check_auto_hook(const Collected& collected, const Catalog& catalog, bool all_hooks_known,
                     const RunConfig& config, std::vector<Diagnostic>& diagnostics);

/// If the key `link` of [ddp.auto] names a report of `hookline test`, replaces the name by the link in the
/// report, so that ranks need no file. Reports a text that names no link. Does nothing for another comm_hook.
void resolve_link(const Collected& collected, RunConfig& config, std::vector<Diagnostic>& diagnostics);

}  // namespace hookline
