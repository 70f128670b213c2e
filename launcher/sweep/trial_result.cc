#include "launcher/sweep/trial_result.h"

#include <cmath>
#include <string_view>

namespace hookline {
namespace {

constexpr std::string_view kEarlyEnd = "early_stopping by ";
constexpr std::size_t kLongestReason = 400;

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

std::string Yardstick::name_of_early_end() const {
  return std::string(kEarlyEnd) + early_stopping + ", " + goal + " " + metric;
}

bool was_ended_by_another_rule(const TrialResult& result, const Yardstick& by) {
  return result.judged_by.starts_with(kEarlyEnd) &&
         (by.early_stopping.empty() || result.judged_by != by.name_of_early_end());
}

Yardstick yardstick_of(const SweepSettings& settings) {
  Yardstick by{settings.metric, settings.goal, settings.metric_value};
  if (settings.stops_early())
    by.early_stopping =
        settings.early_stopping + " from step " + std::to_string(settings.early_stopping_from);
  return by;
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
    const std::string loss = metrics.loss();
    for (const std::string& each : metrics.names()) names += (names.empty() ? "" : ", ") + each;
    result.status = TrialStatus::failed;
    result.reason = shortened_reason("it never logged '" + by.metric + "'; " +
                                     (names.empty() ? "it logged no metric" : "it logged " + names) +
                                     (loss.empty() ? "" : "; " + loss));
  } else if (!std::isfinite(points.back().value)) {
    result.status = TrialStatus::failed;
    result.reason = not_a_number(by, points);
  } else {
    result.metric = value_of(points, by);
  }
}

std::string shortened_reason(const std::string& reason) {
  if (reason.size() <= kLongestReason) return reason;
  std::size_t end = kLongestReason;
  while (end > 0 && (reason[end] & 0xC0) == 0x80) --end;  // between characters
  return reason.substr(0, end) + " …";
}

std::string not_a_number(const Yardstick& by, const History& points) {
  return "its '" + by.metric + "' is not a number at step " + std::to_string(points.back().step);
}

}  // namespace hookline
