#include "launcher/sweep/progress_text.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "base/text/duration_text.h"
#include "base/text/number_text.h"
#include "launcher/output/columns.h"
#include "launcher/sweep/known_trials.h"
#include "launcher/sweep/table.h"

namespace hookline {
RunningText running_text(const Trial& trial, const MetricsFile& metrics, const std::string& metric,
                         const Assignments& same) {
  RunningText text{short_name(trial, same), ""};
  if (const auto step = metrics.step()) text.state = " step " + std::to_string(*step);
  if (metrics.points().empty()) return text;
  text.state += " " + metric + " " + rounded(metrics.points().back().value, 4);
  return text;
}

std::string line_within(std::size_t columns, const std::string& head,
                        const std::vector<RunningText>& running) {
  constexpr std::size_t kShortestName = 8;  // when cut, including its "…"
  const std::string separator = " | ";
  std::string line = head;
  for (const RunningText& each : running) {
    const std::size_t used = width_of(line) + separator.size() + width_of(each.state);
    const std::size_t room = used < columns ? columns - used : 0;
    const bool is_cut = width_of(each.name) > room;
    if (is_cut && room < kShortestName) break;
    line += separator + (is_cut ? cut_to_columns(each.name, room - 1, "") + "…" : each.name) + each.state;
    if (is_cut) break;
  }
  return line;
}

double seconds_used(const std::vector<Trial>& trials) {
  double used = 0;
  for (const Trial& trial : trials)
    if (has_ended(trial.result.status)) used += trial.result.seconds;
  return used;
}

std::optional<double> seconds_left(const std::vector<Trial>& trials, const SweepSettings& settings) {
  const std::size_t ended = count_ended(trials);
  if (ended == 0) return std::nullopt;
  const double used = seconds_used(trials);
  std::size_t all = trials.size();
  if (settings.budget_trials) all = std::min(all, static_cast<std::size_t>(*settings.budget_trials));
  const double left = used / static_cast<double>(ended) * static_cast<double>(all - std::min(all, ended));
  return settings.budget ? std::min(left, std::max(0.0, *settings.budget - used)) : left;
}

std::string time_left_text(double seconds) {
  return ", about " + duration_text(std::chrono::duration<double>(std::max(0.0, seconds))) + " left";
}

}  // namespace hookline
