#include "prediction/decision.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace hookline {

Decision::Decision(std::vector<Contender> contenders, const DecisionRule& rule)
    : contenders_(std::move(contenders)),
      rule_(rule),
      seconds_(contenders_.size(), 0),
      measured_(contenders_.size()),
      is_dropped_(contenders_.size(), false) {}

void Decision::begin(double seconds_without_a_hook) {
  std::fill(seconds_.begin(), seconds_.end(), 0);
  for (auto& each : measured_) each.clear();
  seconds_.at(0) = seconds_without_a_hook;
  latest_ = 0;
  final_.reset();
}

void Decision::predict(std::size_t contender, double seconds) {
  if (!is_dropped_.at(contender) && runs(contender) == 0) seconds_[contender] = seconds;
}

void Decision::measure(std::size_t contender, double seconds) {
  // If a hook takes more or less time than predicted, scale the predictions of other hooks likewise, within
  // limits. A measurement of no hook in other buckets scales only the other predictions of no hook.
  if (contender != 0 && runs(contender) == 0 && seconds_[contender] > 0) {
    const double bias = std::clamp(seconds / seconds_[contender], 1 / rule_.most_bias, rule_.most_bias);
    const bool has_hook = contenders_[contender].hook != 0;
    for (std::size_t i = 1; i < seconds_.size(); ++i)
      if (runs(i) == 0 && (contenders_[i].hook != 0) == has_hook) seconds_[i] *= bias;
  }
  // The step without a hook with which the choice began does not count: a later measurement replaces it.
  std::vector<double>& all = measured_[contender];
  all.insert(std::upper_bound(all.begin(), all.end(), seconds), seconds);
  seconds_[contender] = (all[(all.size() - 1) / 2] + all[all.size() / 2]) / 2;
  latest_ = contender;
}

void Decision::drop(std::size_t contender) {
  is_dropped_.at(contender) = true;
  seconds_[contender] = 0;
  if (final_ == contender) final_.reset();
}

void Decision::restore(std::size_t contender, double seconds, bool is_measured) {
  seconds_.at(contender) = seconds;
  measured_[contender].assign(is_measured ? 1 : 0, seconds);
}

std::size_t Decision::next() {
  if (!final_) {
    if (!rule_.try_each && hooks_measured() == 0) return first_to_measure();
    if (const auto next = next_to_measure()) return *next;
    if (const auto next = next_to_repeat()) return *next;
    final_ = best_measured(0);
  }
  // A setting that is measured again may turn out slower, and so may the next fastest. So each gets only one
  // more chance.
  const std::size_t faster = best_measured(*final_);
  if (faster == 0 || runs(faster) == 1) final_ = faster;
  return *final_;
}

std::size_t Decision::first_to_measure() const {
  const std::size_t fastest = choose(seconds_, 0, rule_.choice);
  return fastest == 0 ? no_hook_in_other_buckets().value_or(0) : in_fewest_buckets(fastest);
}

std::optional<std::size_t> Decision::next_to_measure() const {
  if (rule_.try_each)
    for (std::size_t i = 1; i < seconds_.size(); ++i)
      if (runs(i) == 0 && !is_dropped_[i] && contenders_[i].buckets > 0) return i;
  const std::size_t fastest = fastest_measured(0);
  if (const auto next = fastest_predicted([](std::size_t) { return true; })) {
    const bool may_be_near = hooks_measured() < rule_.near_ones && affordable_ >= 0;
    const double most = may_be_near
                            ? seconds_[fastest] + std::min(rule_.near * seconds_[fastest], affordable_)
                            : seconds_[fastest] * (1 - rule_.choice.least_gain);
    if (seconds_[*next] <= most && saves_enough(*next)) {
      const std::size_t in_fewest = in_fewest_buckets(*next);
      return runs(in_fewest) > 0 ? next : in_fewest;
    }
  }
  if (const auto fewer = in_fewer_buckets(fastest)) return fewer;
  double fastest_hook = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < seconds_.size(); ++i)
    if (runs(i) > 0 && seconds_[i] > 0) fastest_hook = std::min(fastest_hook, seconds_[i]);
  const bool is_close = std::abs(fastest_hook - seconds_[0]) <= rule_.close_to_none * seconds_[0];
  if (!is_close) return std::nullopt;
  return runs(0) == 0 ? std::optional<std::size_t>(0) : no_hook_in_other_buckets();
}

template <class Filter>
std::optional<std::size_t> Decision::fastest_predicted(const Filter& is_wanted) const {
  std::optional<std::size_t> fastest;
  for (std::size_t i = 1; i < seconds_.size(); ++i)
    if (runs(i) == 0 && seconds_[i] > 0 && is_wanted(i) && (!fastest || seconds_[i] < seconds_[*fastest]))
      fastest = i;
  return fastest;
}

template <class Filter>
std::size_t Decision::fewest_buckets_near(std::size_t contender, double tie, const Filter& is_wanted) const {
  std::size_t fewest = contender;
  for (std::size_t i = 0; i < seconds_.size(); ++i)
    if (contenders_[i].hook == contenders_[contender].hook && seconds_[i] > 0 &&
        seconds_[i] <= seconds_[contender] * (1 + tie) && is_wanted(i) &&
        contenders_[i].buckets < contenders_[fewest].buckets)
      fewest = i;
  return fewest;
}

std::optional<std::size_t> Decision::no_hook_in_other_buckets() const {
  return fastest_predicted([this](std::size_t i) {
    return contenders_[i].hook == 0 && seconds_[i] <= seconds_[0] * (1 + rule_.near);
  });
}

bool Decision::saves_enough(std::size_t contender) const {
  return seconds_[contender] <= (1 - rule_.choice.least_gain) * seconds_[0];
}

std::size_t Decision::in_fewest_buckets(std::size_t contender) const {
  return fewest_buckets_near(contender, rule_.tie_of_buckets,
                             [this](std::size_t i) { return saves_enough(i); });
}

bool Decision::is_far_ahead(std::size_t contender) const {
  return contender != 0 && seconds_[contender] * rule_.far_ahead <= seconds_[0];
}

std::optional<std::size_t> Decision::in_fewer_buckets(std::size_t contender) const {
  if (!is_far_ahead(contender)) return std::nullopt;
  return fastest_predicted([&](std::size_t i) {
    return contenders_[i].hook == contenders_[contender].hook &&
           contenders_[i].buckets < contenders_[contender].buckets &&
           seconds_[i] <= rule_.wide * seconds_[contender];
  });
}

std::optional<std::size_t> Decision::next_to_repeat() const {
  const double fastest = seconds_[fastest_measured(0)];
  const double most = fastest + std::min(rule_.finalists * fastest, affordable_);
  std::optional<std::size_t> next;
  for (std::size_t i = 0; i < seconds_.size(); ++i) {
    const bool is_finalist = (i == 0 || runs(i) > 0) && seconds_[i] > 0 && seconds_[i] <= most;
    if (is_finalist && i != latest_ && (!next || runs(i) < runs(*next))) next = i;
  }
  return next && runs(*next) < static_cast<std::size_t>(rule_.rounds) ? next : std::nullopt;
}

std::size_t Decision::best_measured(std::size_t in_use) const {
  const std::size_t fastest = fastest_measured(in_use);
  if (!is_far_ahead(fastest)) return fastest;
  return fewest_buckets_near(fastest, rule_.choice.least_gain, [this](std::size_t i) { return runs(i) > 0; });
}

std::size_t Decision::fastest_measured(std::size_t in_use) const {
  std::vector<double> seconds = seconds_;
  for (std::size_t i = 1; i < seconds.size(); ++i)
    if (runs(i) == 0) seconds[i] = 0;
  return choose(seconds, in_use, rule_.choice);
}

std::size_t Decision::fastest_except(std::size_t contender) const {
  std::size_t fastest = contender;
  for (std::size_t i = 0; i < seconds_.size(); ++i)
    if (i != contender && seconds_[i] > 0 && (fastest == contender || seconds_[i] < seconds_[fastest]))
      fastest = i;
  return fastest;
}

int Decision::hooks_measured() const {
  return static_cast<int>(
      std::count_if(measured_.begin() + 1, measured_.end(), [](const auto& each) { return !each.empty(); }));
}

}  // namespace hookline
