// A sweep's results as a single page that needs no other file.
#pragma once

#include <string>

#include "launcher/report/sweep_results.h"

namespace hookline {

/// HTML that contains its data, its style and the library that draws its charts (plotly.js), so that it loads
/// nothing. `made`: the time when it was made, as people write it.
std::string report_page(const SweepResults& results, const std::string& made);

}  // namespace hookline
