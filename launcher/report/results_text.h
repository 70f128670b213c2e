// A sweep's results for programs: one object for the page, lines of JSON, and a table with commas.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launcher/report/sweep_results.h"

namespace hookline {

/// All of it, as page/rows.js reads it.
nlohmann::ordered_json page_data(const SweepResults& results);

/// A trial a line: what it ran with, what became of it, and what it has measured; not its curves.
std::string trials_as_json_lines(const SweepResults& results);

/// The same as RFC 4180 has it, under a line of names; a value that a trial has not is empty.
std::string trials_as_csv(const SweepResults& results);

}  // namespace hookline
