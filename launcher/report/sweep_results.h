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

struct TrialResults {
  Trial trial;
  std::size_t row = 0;  // of `rows`
  std::map<std::string, std::vector<SeriesPoint>> series;
  std::string config;  // what it ran with; empty if it was never begun
  std::string log;     // the last lines of what the launch said and, unless it is empty, of its first rank
};

struct SweepResults {
  SweepFacts facts;
  std::vector<ResultRow> rows;      // the best first
  std::vector<std::string> labels;  // of the rows
  std::vector<TrialResults> trials;
};

/// What is missing or unreadable of a trial is left out. Throws Error if `folder` is not one of a sweep's.
SweepResults read_sweep_results(const std::filesystem::path& folder);

}  // namespace hookline
