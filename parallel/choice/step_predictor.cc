#include "parallel/choice/step_predictor.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/text/duration_text.h"
#include "parallel/choice/hook_costs.h"
#include "prediction/choice_rule.h"
#include "prediction/network.h"

namespace hookline {
namespace {

const std::string kName = "the choice of a hook";
// Time limits for measuring the link and for timing hooks: multiples of a step without a hook, and seconds
// that each may take in any case.
constexpr double kLinkBudget = 1, kHooksBudget = 2, kLeastLinkBudget = 0.06, kLeastHooksBudget = 0.01;
constexpr std::size_t kHooksInOtherBuckets = 2;
// The link in the config is not the run's if communication adds more than kTimesOff times as much to a step
// as it would on that link, or less than a kTimesOff-th, and the difference is more than the part kPartOff of
// a step.
constexpr double kTimesOff = 3, kPartOff = 0.1;
bool is_near(const Added& added, double step_seconds) {
  const double measured = std::max(0.0, added.measured), allowed = kPartOff * step_seconds;
  return measured <= kTimesOff * added.simulated + allowed &&
         added.simulated <= kTimesOff * measured + allowed;
}

double largest_send(const std::vector<BucketCost>& costs) {
  double largest = 0;
  for (const BucketCost& bucket : costs)
    for (const Send& send : bucket.sends) largest = std::max(largest, send.bytes);
  return largest;
}

/// The few of `hooks` that are worth timing in other buckets: those with the fastest predicted steps, in
/// either scope, if these are faster than steps without a hook.
std::vector<std::size_t> fastest_of(std::vector<std::size_t> hooks, const SettingList& settings,
                                    const std::vector<StepPredictor::Prediction>& predictions,
                                    double without_a_hook) {
  std::map<std::size_t, double> seconds;
  for (const StepPredictor::Prediction& each : predictions) seconds[each.setting] = each.seconds;
  const auto least = [&](std::size_t hook) {
    double best = std::numeric_limits<double>::infinity();
    if (const auto found = seconds.find(hook); found != seconds.end()) best = found->second;
    if (const auto between = settings.between_hosts(hook); between && seconds.contains(*between))
      best = std::min(best, seconds[*between]);
    return best;
  };
  std::erase_if(hooks, [&](std::size_t hook) { return least(hook) >= without_a_hook; });
  std::stable_sort(hooks.begin(), hooks.end(),
                   [&](std::size_t a, std::size_t b) { return least(a) < least(b); });
  hooks.resize(std::min(hooks.size(), kHooksInOtherBuckets));
  return hooks;
}

}  // namespace

/// One call of predict().
struct StepPredictor::Round {
  const ObservedStep& observed;
  const SettingList& settings;
  const std::vector<BucketParameters>& layouts;
  double budget;                  // seconds left for timing hooks
  std::vector<std::size_t> rows;  // the setting of each of measured_->settings

  std::vector<Prediction> predictions(const MeasuredStep& measured) const {
    const std::vector<double> seconds = predicted_seconds(measured);
    std::vector<Prediction> all;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const HookCost& cost = measured.settings[row].cost;
      all.push_back({rows[row], seconds[row], cost.margin, cost.how});
    }
    return all;
  }
};

c10d::ProcessGroup& StepPredictor::group(SumScope scope) {
  ProcessGroupPtr& group = groups_[scope];
  if (!group)
    group = scope == SumScope::all_ranks ? world_->group() : world_->make_group("hook-choice", scope);
  return *group;
}

LinkCost StepPredictor::measured_link(SumScope scope) {
  const MeasuredStep& step = *measured_;
  return measure_link(*world_, group(scope), static_cast<std::int64_t>(largest_send(step.no_hook)),
                      std::max(kLeastLinkBudget, kLinkBudget * step.seconds), kName);
}

double StepPredictor::time_all_reduce(std::int64_t bytes) {
  return hookline::time_all_reduce(*world_, group(SumScope::all_ranks), bytes, kName);
}

void StepPredictor::measure(const ObservedStep& observed, const SettingList& settings,
                            const BucketParameters& buckets) {
  StepPlan plan = observed.plan;
  plan.buckets.clear();
  for (const double ready : ready_times(buckets, observed.buckets, observed.plan))
    plan.buckets.push_back({ready, {}});
  measured_ = MeasuredStep{std::move(plan),
                           cost_without_a_hook(buckets),
                           observed.seconds,
                           {cores_of_a_rank(*world_), {}, {}},
                           {},
                           {}};
  inside_hosts_ = {};
  if (named_link_ && take_named_link(settings)) return;
  const LinkCost link = measured_link(SumScope::all_ranks);
  measured_->machine.full = link.full;
  measured_->machine.half = link.half;
}

/// Takes the times of all-reduces from the link that the config names; only those inside a host are measured.
/// Returns false if the step without a hook shows another link, which is to be measured.
bool StepPredictor::take_named_link(const SettingList& settings) {
  MeasuredStep& step = *measured_;
  // Ranks of one host first sum through shared memory; without it, the ring goes through all ranks.
  const auto ring = settings.has_scopes() ? world_->layout().hosts.size() : world_->size();
  const Network network{static_cast<double>(ring), named_link_->bits_per_second / 8,
                        named_link_->latency_seconds};
  LinkCost inside;
  if (settings.has_scopes()) {
    inside = measured_link(SumScope::inside_hosts);
    inside_hosts_ = inside.full;
    const CollectiveTimes between = all_reduces_on(network, {});
    step.between_hosts = Machine{step.machine.cores, between, between};
  }
  step.machine.full = all_reduces_on(network, inside.full);
  step.machine.half = all_reduces_on(network, inside.half);
  const Added added = added_by_communication(step);
  if (!is_near(added, step.seconds)) {
    if (world_->rank() == 0)
      log::warning(
          "link " + to_text(*named_link_) + " in [ddp.auto] is not this run's: communication adds " +
          duration_text(std::chrono::duration<double>(added.measured)) + " to a step, and would add " +
          duration_text(std::chrono::duration<double>(added.simulated)) +
          " on that link. The link is measured instead: leave 'link' out, or run hookline test again");
    named_link_.reset();
    step.between_hosts.reset();
    return false;
  }
  return true;
}

/// The link inside hosts was measured before if the config names the one between them.
void StepPredictor::measure_scopes() {
  if (inside_hosts_.measured().empty()) inside_hosts_ = measured_link(SumScope::inside_hosts).full;
  const LinkCost between = measured_link(SumScope::between_hosts);
  measured_->between_hosts = Machine{measured_->machine.cores, between.full, between.half};
}

std::vector<StepPredictor::Prediction> StepPredictor::predict(const ObservedStep& observed,
                                                              const SettingList& settings,
                                                              const std::vector<BucketParameters>& layouts,
                                                              bool all) {
  measure(observed, settings, layouts[0]);
  const bool may_gain = seconds_alone(*measured_) <= observed.seconds * (1 - ChoiceRule().least_gain);
  if (!may_gain && !all) return {};
  if (settings.has_scopes() && !measured_->between_hosts) measure_scopes();
  Round round{observed,
              settings,
              layouts,
              all ? std::numeric_limits<double>::infinity()
                  : std::max(kLeastHooksBudget, kHooksBudget * observed.seconds),
              {}};
  std::vector<std::size_t> hooks = settings.hooks();
  add_costs(round, 0, hooks);
  if (!all) hooks = fastest_of(std::move(hooks), settings, round.predictions(*measured_), observed.seconds);
  for (std::size_t layout = 1; layout < layouts.size(); ++layout)
    if (!layouts[layout].empty()) add_costs(round, layout, hooks);
  return round.predictions(*measured_);
}

/// Adds the costs of `hooks` in this layout, and, unless it is the config's own, of no hook. A hook that
/// there is no time left for gets its cost derived from what was timed in the config's layout.
void StepPredictor::add_costs(Round& round, std::size_t layout, const std::vector<std::size_t>& hooks) {
  const SettingList& settings = round.settings;
  const BucketParameters& buckets = round.layouts[layout];
  std::vector<HookSetting> candidates;
  for (const std::size_t hook : hooks) candidates.push_back(settings[hook + layout]);
  HookCosts found = costs_of(*world_, buckets, candidates, round.budget, round.observed.seconds);
  round.budget -= found.seconds;
  for (const std::string& each : found.failures) log_left_out(each);
  const std::vector<double> ready = ready_times(buckets, round.observed.buckets, round.observed.plan);
  const std::vector<BucketCost> without = cost_without_a_hook(buckets);
  const auto add = [&](std::size_t setting, HookCost cost) {
    measured_->settings.push_back(
        {settings[setting].name, std::move(cost), ready, settings[setting].between_hosts});
    round.rows.push_back(setting);
  };
  const auto from_first_layout = [&](std::size_t hook) -> std::optional<HookCost> {
    const auto row = std::find(round.rows.begin(), round.rows.end(), hook);
    if (row == round.rows.end()) return std::nullopt;
    const auto& timed = measured_->settings[static_cast<std::size_t>(row - round.rows.begin())];
    return in_other_buckets(timed.cost, round.layouts[0], buckets);
  };
  if (layout != 0) add(layout, {without, 0, HookCost::Known::derived});
  for (std::size_t i = 0; i < hooks.size(); ++i) {
    if (found.is_broken[i]) continue;
    std::optional<HookCost> cost = std::move(found.costs[i]);
    if (!cost) cost = from_first_layout(hooks[i]);
    if (!cost) {
      log_left_out(candidates[i].name + ": measuring the others left no time for it");
      continue;
    }
    if (const auto between = settings.between_hosts(hooks[i] + layout))
      add(*between, after_average_within_host(*cost, without, inside_hosts_));
    add(hooks[i] + layout, *std::move(cost));
  }
}

void StepPredictor::log_left_out(const std::string& text) const {
  if (world_->rank() == 0) log::info("comm_hook auto: not considered: " + text);
}

}  // namespace hookline
