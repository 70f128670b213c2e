#include "prediction/choice_rule.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace hookline {
namespace {

bool is_a_time(double seconds) { return std::isfinite(seconds) && seconds > 0; }

}  // namespace

std::size_t choose(const std::vector<double>& seconds, std::size_t in_use, const ChoiceRule& rule) {
  if (in_use >= seconds.size() || !is_a_time(seconds[in_use]))
    throw Error("there is no prediction for the setting in use");
  double fastest = seconds[in_use];
  for (const double each : seconds)
    if (is_a_time(each)) fastest = std::min(fastest, each);
  if (fastest > seconds[in_use] * (1 - rule.least_gain)) {
    const bool earns_its_place =
        in_use == 0 || !is_a_time(seconds[0]) || seconds[in_use] <= seconds[0] * (1 - rule.least_gain);
    return earns_its_place ? in_use : 0;
  }
  std::size_t first = 0;
  while (!is_a_time(seconds[first]) || seconds[first] > fastest * (1 + rule.tie)) ++first;
  return first;
}

bool ChoiceWatch::sees_change(const Window& window) {
  const bool step_changed = std::abs(window.step - window.step_before) > rule_.step * window.step_before;
  const double link_off = std::abs(window.link - window.link_before);
  const bool link_changed = window.link > 0 && window.link_before > 0 &&
                            link_off > rule_.step * window.step &&
                            link_off > rule_.link * std::max(window.link, window.link_before);
  const bool loses = window.step_without > 0 && window.step > window.step_without * (1 + rule_.loss);
  in_a_row_ = step_changed || link_changed || loses ? in_a_row_ + 1 : 0;
  return in_a_row_ >= rule_.windows;
}

}  // namespace hookline
