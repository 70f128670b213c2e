// The configs that `hookline sweep` recommends in the end.
#pragma once

#include <vector>

#include "launcher/sweep/grid_points.h"
#include "launcher/sweep/run_sweep.h"
#include "launcher/sweep/table.h"

namespace hookline {

/// Writes the winner as a config, and the fastest of those that do as well, if that is another one; prints how to run them.
void keep_winners(const std::vector<ResultRow>& rows, const SweepPlan& plan, const SweepRun& run, bool json);

}  // namespace hookline
