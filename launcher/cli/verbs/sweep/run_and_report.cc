#include "launcher/cli/verbs/sweep/run_and_report.h"

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text/count_text.h"
#include "launcher/cli/verbs/sweep/again.h"
#include "launcher/cli/verbs/sweep/remarks.h"
#include "launcher/cli/verbs/sweep/winners.h"
#include "launcher/process/exit_code.h"
#include "launcher/process/signals.h"
#include "launcher/sweep/known_trials.h"
#include "launcher/sweep/run_array.h"
#include "launcher/sweep/table.h"

namespace hookline {
namespace {

int exit_code_of(const SweepEnd& end) {
  if (end.signal) return 128 + *end.signal;
  return end.has_failed ? kFailure : kSuccess;
}

}  // namespace

int run_and_report(const SweepRun& run, const SweepPlan& plan, const SweepFacts& facts,
                   const std::optional<ArrayRequest>& request, const SweepFlags& flags) {
  Signals signals;
  std::optional<SweepState> held;
  try {
    held.emplace(run.folder, flags.repair ? OnDamage::repair : OnDamage::refuse);
  } catch (const Error& error) {
    log::error(error.what());
    return kBadInput;
  }
  SweepState& state = *held;
  if (state.repair())
    tell_of_repair(run, plan, *state.repair());
  else if (flags.repair)
    log::info("the state of the sweep is sound: there was nothing to repair");
  PlanChange change = state.take(plan, facts);
  if (state.repair()) change.added = 0;  // trials whose rows were lost are not new
  const TrialsInJobs busy = trials_in_jobs(run, plan, state, signals);
  if (busy.signal) return 128 + *busy.signal;
  if (!request && !busy.jobs.empty()) {
    const std::string& job = busy.jobs.begin()->second;
    log::error("Slurm's job " + job +
               " still has trials of this sweep: follow it with --scheduler slurm, "
               "or cancel it: scancel " +
               job);
    return kBadInput;
  }
  reset_some(flags, run.folder, busy, state);  // may refuse, so it comes before the resets of the next line
  reset_those_of_other_rules(run, state);
  std::vector<Trial> trials = state.trials();
  const std::size_t ended = count_ended(trials);
  log::info(count_text(trials.size(), "trial") +
            (ended ? ", " + std::to_string(ended) + " of them ended in earlier runs" : "") + "; results in " +
            run.folder.string());
  if (!change.is_first && (change.added || change.dropped))
    log::info("the sweep has changed: " + count_text(change.added, "trial") +
              (change.added == 1 ? " is" : " are") + " new, " + count_text(change.dropped, "trial") +
              (change.dropped == 1 ? " is" : " are") + " no longer part of it");
  SweepEnd end;
  if (request) {
    const ArrayEnd array = run_array(run, *request, plan, state, signals, !flags.no_follow);
    if (array.continues) {
      if (!array.end.signal) tell_of_failures(state.trials(), run);
      return exit_code_of(array.end);
    }
    end = array.end;
  } else {
    end = run_sweep(run, plan, state, signals);
  }
  trials = state.trials();
  const std::vector<ResultRow> rows = rows_of(trials, run.settings.goal == "min");
  if (flags.json)
    for (const ResultRow& row : rows) std::cout << json_of(row).dump() << "\n";
  else
    std::cout << table_text(rows, run.settings.metric, run.same) << std::flush;
  if (const std::string remark = speedup_remark(rows); !remark.empty()) log::info(remark);
  if (!end.signal) {
    tell_of_failures(trials, run);
    warn_of_unread_configs(trials, run.folder, run.keys_of_ranks);
    list_idle(plan, trials, run.same);
    keep_winners(rows, plan, run, flags.json);
  }
  std::cout << std::flush;
  return exit_code_of(end);
}

}  // namespace hookline
