// A sweep's results as one page that needs nothing else.
#pragma once

#include <string>

#include "launcher/report/sweep_results.h"

namespace hookline {

/// HTML with its data, its style and the library that draws its charts (plotly.js), so that no request leaves it. `made`: when,
/// for people.
std::string report_page(const SweepResults& results, const std::string& made);

}  // namespace hookline
