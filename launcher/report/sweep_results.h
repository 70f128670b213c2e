// All results of a sweep, for a report.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "launcher/report/series.h"
#include "launcher/sweep/state.h"
#include "launcher/sweep/table.h"

namespace hookline {

/// The key of a row whose value is the sweep's name, if a report has several sweeps.
inline constexpr const char* kSweepColumn = "sweep";

struct TrialResults {
  Trial trial;
  std::size_t row = 0;          // its index in `rows`
  bool is_interrupted = false;  // it was started, and nothing runs it any more
  std::map<std::string, std::vector<SeriesPoint>> series;
  std::string config;  // what it ran with; empty if it never started
  std::string log;     // last lines of the launcher's output and, if any, of its first rank's
};

struct SweepResults {
  SweepFacts facts;
  std::vector<ResultRow> rows;         // the best first
  std::vector<std::string> labels;     // of the rows: every value that not all rows have
  std::vector<std::string> names;      // short: what distinguishes a row from the others
  std::vector<std::string> own_names;  // the same without the row's sweep
  std::vector<TrialResults> trials;
  std::vector<std::string> remarks;  // what is missing from the rows, and why
};

/// Reads the results of one sweep or several. What is missing of a trial is left out; what can't be read is
/// left out with a warning. Rows of several sweeps are together in one list, and the key "sweep" says which
/// sweep a row is from: by the folder's name or, if two have the same name, by the folder. A row's speed-up
/// is over the baseline of its own sweep. Throws Error if a folder is not a sweep's, or if two sweeps are not
/// compared by the same metric.
SweepResults read_sweep_results(const std::vector<std::filesystem::path>& folders);

}  // namespace hookline
