// A sweep's results for programs: one object for the page, JSON lines, and a comma-separated table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launcher/report/sweep_results.h"

namespace hookline {

/// All results, as page/rows.js reads them.
nlohmann::ordered_json page_data(const SweepResults& results);

/// One line for each trial: what it ran with, how it ended, and what it measured, without its curves.
std::string trials_as_json_lines(const SweepResults& results);

/// The same in the format of RFC 4180, with a header line; a value that a trial lacks is empty.
std::string trials_as_csv(const SweepResults& results);

}  // namespace hookline
