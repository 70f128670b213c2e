#include "launcher/cli/verbs/sweep/again.h"

#include <set>

#include "base/log.h"
#include "base/text/count_text.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/sweep/array_job.h"
#include "launcher/sweep/trial_files.h"
#include "launcher/sweep/trial_result.h"

namespace hookline {
namespace fs = std::filesystem;

/// The ids of the trials to run again. Throws UsageError.
std::vector<std::string> chosen_again(const SweepFlags& flags, const std::vector<Trial>& trials) {
  std::vector<std::string> chosen;
  for (const std::string& named : flags.rerun) {
    std::vector<std::string> found;
    for (const Trial& trial : trials)
      if (!named.empty() && trial.planned.id.starts_with(named)) found.push_back(trial.planned.id);
    if (found.size() != 1)
      throw UsageError("--rerun '" + named + "' names " +
                       (found.empty() ? "no trial" : count_text(found.size(), "trial")) +
                       " of this sweep; --dry-run lists their ids");
    chosen.push_back(found.front());
  }
  for (const Trial& trial : trials) {
    const TrialStatus status = trial.result.status;
    if (flags.retry_failed && (status == TrialStatus::failed || status == TrialStatus::stopped))
      chosen.push_back(trial.planned.id);
  }
  return chosen;
}

/// Resets trials that were ended early by another rule than the file's; their files are set aside.
void reset_those_of_other_rules(const SweepRun& run, SweepState& state) {
  std::size_t count = 0;
  for (const Trial& trial : state.trials()) {
    if (!was_ended_by_another_rule(trial.result, yardstick_of(run.settings))) continue;
    set_aside(folder_of_trial(run.folder, trial.planned.id));
    state.reset(trial.planned.id);
    ++count;
  }
  if (count)
    log::info(count_text(count, "trial") + " " + (count == 1 ? "runs" : "run") +
              " again: " + (count == 1 ? "it was" : "they were") +
              " stopped early by another rule, metric or goal than the file's");
}

/// Resets the trials to run again; their files are set aside. Throws UsageError.
void reset_some(const SweepFlags& flags, const fs::path& folder, const TrialsInJobs& busy,
                SweepState& state) {
  const std::vector<std::string> chosen = chosen_again(flags, state.trials());
  for (const std::string& id : chosen)
    if (const auto job = busy.jobs.find(id); job != busy.jobs.end())
      throw UsageError("the trial " + id + " can't be run again: job " + job->second +
                       " still has it; 'scancel " + job->second + "' cancels that");
  for (const std::string& id : chosen) {
    set_aside(folder_of_trial(folder, id));
    state.reset(id);
  }
}

/// Reports a repair. Trials of the plan without a sound row are to run again. Their files are set aside,
/// unless a job still has the trial or has left a result.
void tell_of_repair(const SweepRun& run, const SweepPlan& plan, const Repair& repair) {
  if (repair.kept.empty())
    log::warning("the state of the sweep was missing, though trials have run; a new one was made");
  else
    log::warning("the state of the sweep was damaged: " + repair.damage +
                 "; the state was replaced by one with the " + count_text(repair.ids.size(), "sound row") +
                 " of trials, and the damaged file is kept as '" + repair.kept.string() + "'");
  std::set<std::string> busy;
  for (const ArrayJob& job : kept_jobs(run.folder))
    for (const auto& [element, id] : job.elements) busy.insert(id);
  std::vector<std::string> lost, kept;
  for (const PlannedTrial& trial : plan.trials) {
    if (repair.ids.contains(trial.id)) continue;
    lost.push_back(trial.id);
    const fs::path own = folder_of_trial(run.folder, trial.id);
    if (busy.contains(trial.id) || fs::exists(own / kResultFile)) continue;
    if (const fs::path aside = set_aside(own); !aside.empty()) kept.push_back("'" + aside.string() + "'");
  }
  if (lost.empty()) return;
  const auto listed = [](const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i) text += (i ? ", " : "") + names[i];
    return text;
  };
  log::warning(count_text(lost.size(), "trial") + " of the sweep had no sound row, and " +
               (lost.size() == 1 ? "is" : "are") + " to run again: " + listed(lost) +
               (kept.empty() ? ""
                             : std::string("; what was left of ") + (lost.size() == 1 ? "it" : "them") +
                                   " is kept in " + listed(kept)));
}

}  // namespace hookline
