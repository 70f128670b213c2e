#include "launcher/cli/verbs/sweep/on_slurm.h"

#include <cctype>
#include <iostream>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "launcher/cli/scheduler_flags.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs/sweep/again.h"
#include "launcher/process/exit_code.h"
#include "launcher/sweep/known_trials.h"
#include "launcher/sweep/run_array.h"
#include "launcher/sweep/trial_result.h"

namespace hookline {

ArrayRequest request_of(const SweepRun& run, const NodeResources& resources, const std::string& name,
                        const SweepFlags& flags) {
  ArrayRequest request;
  for (const char c : name)
    request.name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ? c : '-';
  request.needed = resources;
  request.most_at_once = run.settings.max_parallel;
  request.scheduler_arguments = flags.scheduler_arguments;
  request.template_text = template_text(flags.template_file, "slurm_array.sbatch");
  for (const char* needed : {"${array}", "${command}", "${trials}", "${list}"})
    if (request.template_text.find(needed) == std::string::npos)
      throw UsageError(
          "the template '" + flags.template_file + "' has no " + needed +
          ": an array job runs no trials without ${array}, ${command}, ${trials} and ${list}; to see "
          "how the built-in template uses them, run with --print and without --template");
  request.hookline = run.hookline;
  return request;
}

int print_job(const SweepRun& run, const SweepPlan& plan, const ArrayRequest& request,
              const SweepFlags& flags) {
  std::vector<Trial> trials;
  try {
    trials = recorded_trials(run.folder, plan);
  } catch (const Error& error) {  // the state can't be read
    log::error(error.what());
    return kBadInput;
  }
  for (Trial& trial : trials)
    if (was_ended_by_another_rule(trial.result, yardstick_of(run.settings)))
      trial.result.status = TrialStatus::waiting;
  for (const std::string& id : chosen_again(flags, trials))
    for (Trial& trial : trials)
      if (trial.planned.id == id) trial.result.status = TrialStatus::waiting;
  std::set<std::string> busy;
  for (const ArrayJob& job : kept_jobs(run.folder))
    for (const auto& [element, id] : job.elements) busy.insert(id);
  const NextTrials next = next_trials(trials, busy, run.settings.budget_trials);
  if (next.ids.empty()) {
    log::info(
        "there is nothing to submit: either no trial waits, or every waiting trial is in a job already, or "
        "budget_trials is used up");
    return kSuccess;
  }
  std::cout << array_script(request, stem_now(run.folder), next.ids.size()) << std::flush;
  log::info(
      "this script is only to look at: the files that it reads are written when it is submitted, without "
      "--print");
  return kSuccess;
}

}  // namespace hookline
