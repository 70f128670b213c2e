#include "launcher/sweep/known_trials.h"

#include <algorithm>

#include "launcher/sweep/trial.h"
#include "launcher/sweep/trial_files.h"

namespace hookline {
namespace fs = std::filesystem;

std::vector<Trial> known_trials(const fs::path& folder, const SweepPlan& plan, const Yardstick& by,
                                SweepState& state) {
  std::vector<Trial> trials = state.trials();
  for (std::size_t i = 0; i < trials.size(); ++i) {
    Trial& trial = trials[i];
    trial.planned = plan.trials.at(i);
    TrialResult& result = trial.result;
    if (!has_ended(result.status) || result.judged_by == by.name() || !result.ran_well) continue;
    MetricsFile metrics(metrics_of(folder_of_trial(folder, trial.planned.id)), by.metric);
    metrics.finish();
    judge(metrics, by, result);
    state.end(trial.planned.id, result);
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
