// The names of files in a run's folder, on which the launcher and the ranks agree.
#pragma once

namespace hookline {

inline constexpr const char* kMetricsFile = "metrics.jsonl";  // a line of JSON for each Accelerator::log
inline constexpr const char* kRunSummary = "summary.json";    // what the run has measured of itself

}  // namespace hookline
