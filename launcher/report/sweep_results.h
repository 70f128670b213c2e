// All that a sweep has left behind, for a report.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "launcher/report/series.h"
#include "launcher/sweep/state.h"
#include "launcher/sweep/table.h"

namespace hookline {

/// Of rows of several sweeps the key whose value is the sweep's name.
inline constexpr const char* kSweepColumn = "sweep";

struct TrialResults {
  Trial trial;
  std::size_t row = 0;          // of `rows`
  bool is_interrupted = false;  // it was begun, and nobody runs it any more
  std::map<std::string, std::vector<SeriesPoint>> series;
  std::string config;  // what it ran with; empty if it was never begun
  std::string log;     // the last lines of what the launch said and, unless it is empty, of its first rank
};

struct SweepResults {
  SweepFacts facts;
  std::vector<ResultRow> rows;         // the best first
  std::vector<std::string> labels;     // of the rows: every value that not all rows have
  std::vector<std::string> names;      // in short, what tells a row from the others
  std::vector<std::string> own_names;  // the same without the sweep that a row is of
  std::vector<TrialResults> trials;
  std::vector<std::string> remarks;  // what is missing from the rows, and why
};

/// What is missing or unreadable of a trial is left out, and what is unreadable is warned of. Of several sweeps it is all rows together, which say by "sweep" whose
/// they are: its folder's name, or, where two have the same, the folder. A row's speed-up is over its own sweep's baseline.
/// Throws Error if a folder is not one of a sweep's, or if two sweeps are not compared by the same metric.
SweepResults read_sweep_results(const std::vector<std::filesystem::path>& folders);

}  // namespace hookline
