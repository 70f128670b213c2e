#include "launcher/report/series.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/lines.h"
#include "base/regular_file.h"
#include "config/run_files.h"
#include "launcher/sweep/metrics_file.h"

namespace hookline {
namespace {

/// Keeps points that are evenly spread over all points added, without knowing how many will be.
class Thinned {
 public:
  void add(const SeriesPoint& point, std::size_t most) {
    last_ = point;
    has_last_ = true;
    if (came_++ % stride_ != 0) return;
    kept_.push_back(point);
    if (kept_.size() < most) return;
    for (std::size_t i = 0; 2 * i < kept_.size(); ++i) kept_[i] = kept_[2 * i];
    kept_.resize((kept_.size() + 1) / 2);
    stride_ *= 2;
  }

  /// Drops the points from `step` on.
  void cut(std::int64_t step) {
    while (!kept_.empty() && kept_.back().step >= step) kept_.pop_back();
    came_ = kept_.size() * stride_;
    has_last_ = false;
  }

  std::vector<SeriesPoint> take() && {
    if (has_last_ && (came_ - 1) % stride_ != 0) kept_.push_back(last_);
    return std::move(kept_);
  }

 private:
  std::vector<SeriesPoint> kept_;
  SeriesPoint last_;
  bool has_last_ = false;  // false before the first point and after a cut
  std::size_t came_ = 0, stride_ = 1;
};

}  // namespace

std::map<std::string, std::vector<SeriesPoint>> read_series(const std::filesystem::path& file,
                                                            std::size_t most_points, std::string& loss) {
  std::map<std::string, Thinned> found;
  InputFile in(file);
  std::int64_t lines = 0;
  RepeatedSteps repeated(file);
  repeated.look();
  BoundedLines lines_of_file(kLongestMetricsLine);
  const auto take = [&](const std::string& line, std::uint64_t begin) {
    const auto json = read_metrics_line(line);
    if (!json) return;
    const auto number = [&](const char* name) -> std::optional<double> {
      const auto value = json->find(name);
      return value != json->end() && value->is_number() ? std::optional(value->get<double>()) : std::nullopt;
    };
    SeriesPoint point;
    point.step = step_of(*json, lines++);
    if (const auto first = repeated.take(*json, point.step, begin))
      for (auto& [name, thinned] : found) thinned.cut(*first);
    point.seconds = number(kSecondsOfLine);
    point.bytes_sent = number(kBytesOfLine);
    for (const auto& [name, value] : json->items()) {
      if (!value.is_number() || name == kStepOfLine || name == kSecondsOfLine || name == kBytesOfLine)
        continue;
      point.value = value.get<double>();
      if (std::isfinite(point.value)) found[name].add(point, most_points);
    }
  };
  const bool is_whole = read_lines(in, lines_of_file, take, kMostMetricsBytes);
  loss = loss_text(lines_of_file, file, !is_whole);
  std::map<std::string, std::vector<SeriesPoint>> series;
  for (auto& [name, thinned] : found) series[name] = std::move(thinned).take();
  return series;
}

}  // namespace hookline
