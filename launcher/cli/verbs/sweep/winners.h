// The configs that `hookline sweep` recommends in the end.
#pragma once

#include <vector>

#include "launcher/sweep/grid_points.h"
#include "launcher/sweep/run_sweep.h"
#include "launcher/sweep/table.h"

namespace hookline {

/// Writes configs of the winner, and of the fastest row that is as good as the winner if that is a different
/// row; prints how to run them.
void keep_winners(const std::vector<ResultRow>& rows, const SweepPlan& plan, const SweepRun& run, bool json);

}  // namespace hookline
