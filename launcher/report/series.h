// The logged values of a run, as curves.
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

/// The curve of each metric, in the order of the file. A metric with `most_points` or more keeps every
/// second point, every fourth, …, and the last. Leaves out what is not a finite number. Empty if there is no
/// such file. `loss`: gets what could not be read of the file, as loss_text words it.
std::map<std::string, std::vector<SeriesPoint>> read_series(const std::filesystem::path& file,
                                                            std::size_t most_points, std::string& loss);

}  // namespace hookline
