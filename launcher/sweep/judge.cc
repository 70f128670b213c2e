#include "launcher/sweep/judge.h"

#include <cmath>

namespace hookline {
namespace {

double value_of(const History& points, const Yardstick& by) {
  if (by.metric_value == "last") return points.back().value;
  double best = points.back().value;
  for (const MetricPoint& point : points) {
    if (std::isfinite(point.value) && is_better(point.value, best, by.smaller_is_better()))
      best = point.value;
  }
  return best;
}

}  // namespace

std::string Yardstick::name() const { return metric_value == "last" ? metric : metric + ", best " + goal; }

Yardstick yardstick_of(const SweepSettings& settings) {
  return {settings.metric, settings.goal, settings.metric_value};
}

void judge(const MetricsFile& metrics, const Yardstick& by, TrialResult& result) {
  const History& points = metrics.points();
  result.judged_by = by.name();
  result.status = TrialStatus::done;
  result.metric.reset();
  result.reason.clear();
  if (by.metric.empty()) return;
  if (points.empty()) {
    std::string names;
    for (const std::string& each : metrics.names()) names += (names.empty() ? "" : ", ") + each;
    result.status = TrialStatus::failed;
    result.reason = "it never logged '" + by.metric + "'; " +
                    (names.empty() ? "it logged no metric" : "it logged " + names);
  } else if (!std::isfinite(points.back().value)) {
    result.status = TrialStatus::failed;
    result.reason = not_a_number(by, points);
  } else {
    result.metric = value_of(points, by);
  }
}

std::string not_a_number(const Yardstick& by, const History& points) {
  return "its '" + by.metric + "' is not a number at step " + std::to_string(points.back().step);
}

}  // namespace hookline
