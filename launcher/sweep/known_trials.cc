#include "launcher/sweep/known_trials.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "launcher/sweep/trial_files.h"

namespace hookline {
namespace fs = std::filesystem;

bool take_in_result(const fs::path& folder, const Yardstick& by, Trial& trial, SweepState& state) {
  const fs::path own = folder_of_trial(folder, trial.planned.id);
  TrialResult& result = trial.result;
  const bool is_known = has_ended(result.status);
  if (!is_known) {
    const auto found = read_result(own, trial.planned.id);
    if (!found) return false;
    result = *found;
  }
  const bool is_other = result.judged_by != by.name() && result.ran_well;
  if (is_other) {  // the sweep's metric has changed
    MetricsFile metrics(metrics_of(own), by.metric);
    metrics.finish();
    if (const std::string loss = metrics.loss(); !loss.empty()) log::warning(loss);
    judge(metrics, by, result);
  }
  if (is_other || !is_known) state.end(trial.planned.id, result);
  return true;
}

void set_unreadable_aside(const fs::path& folder, const Trial& trial, const std::string& why) {
  const fs::path kept = set_aside(folder_of_trial(folder, trial.planned.id));
  log::warning("the result of the trial " + trial.planned.id + " is lost: " + why +
               "; the trial is to run again, and all that it left behind is kept in '" + kept.string() + "'");
}

std::vector<Trial> known_trials(const fs::path& folder, const SweepPlan& plan, const Yardstick& by,
                                SweepState& state, const std::set<std::string>& busy) {
  std::vector<Trial> trials = state.trials();
  for (std::size_t i = 0; i < trials.size(); ++i) {
    trials[i].planned = plan.trials.at(i);
    try {
      take_in_result(folder, by, trials[i], state);
    } catch (const UnreadableResult& error) {
      if (!busy.contains(trials[i].planned.id)) set_unreadable_aside(folder, trials[i], error.what());
    }
  }
  return trials;
}

std::vector<Trial> recorded_trials(const fs::path& folder, const SweepPlan& plan) {
  std::map<std::string, TrialResult> known;
  if (SweepRecord::is_in(folder))
    for (const Trial& trial : SweepRecord::read(folder).trials) known[trial.planned.id] = trial.result;
  std::vector<Trial> trials;
  for (const PlannedTrial& planned : plan.trials) {
    Trial trial;
    trial.planned = planned;
    trial.result.status = TrialStatus::waiting;
    if (const auto found = known.find(planned.id); found != known.end()) trial.result = found->second;
    if (has_ended(trial.result.status)) {
      trials.push_back(std::move(trial));
      continue;
    }
    try {
      if (const auto found = read_result(folder_of_trial(folder, planned.id), planned.id))
        trial.result = *found;
    } catch (const UnreadableResult& error) {
      log::warning(error.what() + std::string(": its trial is to run again"));
    }
    trials.push_back(std::move(trial));
  }
  return trials;
}

bool any_failed(const std::vector<Trial>& trials) {
  return std::any_of(trials.begin(), trials.end(),
                     [](const Trial& trial) { return trial.result.status == TrialStatus::failed; });
}

std::size_t count_ended(const std::vector<Trial>& trials) {
  return static_cast<std::size_t>(std::count_if(
      trials.begin(), trials.end(), [](const Trial& trial) { return has_ended(trial.result.status); }));
}

}  // namespace hookline
