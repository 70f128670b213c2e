#include "launcher/sweep/stopping.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text/number_text.h"

namespace hookline {
namespace {

std::string number(double value) { return rounded(value, 6); }

/// The average of the values up to `step`; nothing if there are none.
std::optional<double> average_until(const History& history, std::int64_t step) {
  double sum = 0;
  std::size_t count = 0;
  for (const MetricPoint& point : history) {
    if (point.step > step || !std::isfinite(point.value)) continue;
    sum += point.value;
    ++count;
  }
  return count ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

/// The last value at or before `step`, if the trial has reached that step.
std::optional<double> value_at(const History& history, std::int64_t step) {
  std::optional<double> value;
  if (history.empty() || history.back().step < step) return value;
  for (const MetricPoint& point : history)
    if (point.step <= step && std::isfinite(point.value)) value = point.value;
  return value;
}

}  // namespace

bool is_better(double a, double b, bool smaller_is_better) { return smaller_is_better ? a < b : a > b; }

bool has_diverged(const History& own, std::int64_t from) {
  return own.size() > 1 && own.back().step >= from && !std::isfinite(own.back().value) &&
         !std::isfinite(own[own.size() - 2].value);
}

std::string hopeless_by_median(const History& own, const Histories& ended, bool smaller_is_better,
                               std::int64_t from) {
  if (own.empty() || own.back().step < from) return "";
  const std::int64_t step = own.back().step;
  std::vector<double> averages;
  for (const History* other : ended)
    if (const auto average =
            other->empty() || other->back().step < step ? std::nullopt : average_until(*other, step))
      averages.push_back(*average);
  if (averages.size() < kFewestOthers) return "";
  std::sort(averages.begin(), averages.end());
  const std::size_t half = averages.size() / 2;
  const double median = averages.size() % 2 ? averages[half] : (averages[half - 1] + averages[half]) / 2;
  std::optional<double> best;
  for (const MetricPoint& point : own)
    if (std::isfinite(point.value) && (!best || is_better(point.value, *best, smaller_is_better)))
      best = point.value;
  if (!best || !is_better(median, *best, smaller_is_better)) return "";
  return "at step " + std::to_string(step) + " its best is " + number(*best) + ", and the median of " +
         std::to_string(averages.size()) + " others is " + number(median);
}

std::int64_t rung_at(std::int64_t step, std::int64_t from) {
  if (step < from) return 0;
  std::int64_t rung = from;
  while (rung <= step / kHalvingFactor) rung *= kHalvingFactor;
  return rung;
}

std::string hopeless_by_halving(const History& own, const Histories& others, bool smaller_is_better,
                                std::int64_t from) {
  const std::int64_t rung = own.empty() ? 0 : rung_at(own.back().step, from);
  if (rung == 0) return "";
  const std::optional<double> value = value_at(own, rung);
  if (!value) return "";
  std::size_t there = 1, better = 0;
  for (const History* other : others) {
    const std::optional<double> theirs = value_at(*other, rung);
    if (!theirs) continue;
    ++there;
    better += is_better(*theirs, *value, smaller_is_better);
  }
  const std::size_t may_continue = std::max<std::size_t>(1, there / kHalvingFactor);
  if (there <= kFewestOthers || better < may_continue) return "";
  return "at step " + std::to_string(rung) + ", " + std::to_string(better) + " of " + std::to_string(there) +
         (better == 1 ? " trials was" : " trials were") + " better, and only " +
         std::to_string(may_continue) + " may continue";
}

}  // namespace hookline
