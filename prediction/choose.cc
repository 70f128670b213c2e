#include "prediction/choose.h"

#include <algorithm>
#include <cmath>

#include "hooks/error.h"

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
  if (fastest > seconds[in_use] * (1 - rule.least_gain)) return in_use;
  std::size_t first = 0;
  while (!is_a_time(seconds[first]) || seconds[first] > fastest * (1 + rule.tie)) ++first;
  return first;
}

Verdict ChoiceWatch::see(const Window& window) {
  const bool is_slower =
      window.without_a_hook && window.measured > *window.without_a_hook * (1 + rule_.slower);
  const bool is_off = std::abs(window.measured - window.predicted) > rule_.off * window.predicted;
  const bool is_first = is_first_;
  is_first_ = false;
  slower_ = is_slower ? slower_ + 1 : 0;
  off_ = is_off ? off_ + 1 : 0;
  if (is_slower && (is_first || slower_ >= rule_.windows)) return Verdict::go_back;
  if (off_ >= rule_.windows) return Verdict::think_again;
  return Verdict::keep;
}

}  // namespace hookline
