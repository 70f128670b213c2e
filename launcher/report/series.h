// What a run has logged, as curves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hookline {

/// A value of a metric, and when it was logged.
struct SeriesPoint {
  std::int64_t step = 0;
  double value = 0;
  std::optional<double> seconds;     // since the run's start
  std::optional<double> bytes_sent;  // by a rank until then
};

/// By metric, in the order of the file; of more than `most_points` every second one, every fourth, …, and the last. What is not
/// a finite number is left out. Empty if there is no such file. `loss`: of its lines, as loss_text has it.
std::map<std::string, std::vector<SeriesPoint>> read_series(const std::filesystem::path& file,
                                                            std::size_t most_points, std::string& loss);

}  // namespace hookline
