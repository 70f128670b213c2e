// hookline sweep: runs a program with many configs, and says which is best.
#include <sched.h>
#include <unistd.h>

#include <cctype>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/count_text.h"
#include "base/error.h"
#include "base/folder_access.h"
#include "base/log.h"
#include "config/visible_gpus.h"
#include "launcher/cli/scheduler_flags.h"
#include "launcher/cli/sweep_cells.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/cli/verbs/sweep/again.h"
#include "launcher/cli/verbs/sweep/flags.h"
#include "launcher/cli/verbs/sweep/remarks.h"
#include "launcher/cli/verbs/sweep/winners.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/process/exit_code.h"
#include "launcher/process/machine.h"
#include "launcher/process/shell.h"
#include "launcher/schedulers/job_environment.h"
#include "launcher/schedulers/job_text.h"
#include "launcher/schedulers/sbatch_lines.h"
#include "launcher/schedulers/slurm_job.h"
#include "launcher/sweep/array_job.h"
#include "launcher/sweep/known_trials.h"
#include "launcher/sweep/run_array.h"
#include "launcher/sweep/run_sweep.h"
#include "launcher/sweep/table.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;

SweepMachine machine() {
  SweepMachine machine;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &cores)) machine.cores.push_back(core);
  machine.gpus = visible_gpus();
  return machine;
}

SweepFacts facts_of(const fs::path& file, const SweepFile& sweep, const SweepMachine& machine,
                    const Arguments& arguments) {
  SweepFacts facts;
  facts.name = file.stem().string();
  std::vector<std::string> command = {"hookline", "sweep"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  facts.command = shown_shell_line(command);
  facts.machine = host_name() + ", " + count_text(machine.cores.size(), "core");
  if (machine.gpus > 0) facts.machine += ", " + count_text(static_cast<std::size_t>(machine.gpus), "GPU");
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  char text[32] = "";
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", gmtime_r(&now, &utc));
  facts.began = text;
  facts.metric = sweep.settings.metric;
  facts.goal = sweep.settings.goal;
  facts.metric_value = sweep.settings.metric_value;
  facts.same = sweep.fixed;
  return facts;
}

/// What is asked of Slurm. Throws UsageError.
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
          ": an array job runs no trials without ${array}, ${command}, ${trials} and ${list}; --print "
          "without --template shows what the built-in one makes of them");
  request.hookline = run.hookline;
  return request;
}

/// The job as it would be submitted. Looks at the sweep's folder, and changes nothing.
int print_job(const SweepRun& run, const SweepPlan& plan, const ArrayRequest& request,
              const SweepFlags& flags) {
  std::vector<Trial> trials;
  try {
    trials = recorded_trials(run.folder, plan);
  } catch (const Error& error) {  // of the state
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
    log::info("there is nothing to submit: no trial waits that no job has");
    return kSuccess;
  }
  std::cout << array_script(request, stem_now(run.folder), next.ids.size()) << std::flush;
  log::info("to look at: what it reads is written when it is submitted, without --print");
  return kSuccess;
}

int exit_code_of(const SweepEnd& end) {
  if (end.signal) return 128 + *end.signal;
  return end.has_failed ? kFailure : kSuccess;
}

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
  if (state.repair()) change.added = 0;  // what has no row any more is no new trial
  const TrialsInJobs busy = trials_in_jobs(run, plan, state, signals);
  if (busy.signal) return 128 + *busy.signal;
  if (!request && !busy.jobs.empty()) {
    const std::string& job = busy.jobs.begin()->second;
    log::error("job " + job +
               " of Slurm's still has trials of this sweep: follow it with --scheduler slurm, "
               "or cancel it: scancel " +
               job);
    return kBadInput;
  }
  reset_some(flags, run.folder, busy, state);  // refuses before anything is changed
  reset_those_of_other_rules(run, state);
  std::vector<Trial> trials = state.trials();
  const std::size_t ended = count_ended(trials);
  log::info(count_text(trials.size(), "trial") +
            (ended ? ", " + std::to_string(ended) + " of them done before" : "") + "; results in " +
            run.folder.string());
  if (!change.is_first && (change.added || change.dropped))
    log::info("the sweep has changed: " + count_text(change.added, "trial") +
              (change.added == 1 ? " is" : " are") + " new, " + count_text(change.dropped, "trial") +
              (change.dropped == 1 ? " is" : " are") + " no longer part of it");
  SweepEnd end;
  if (request) {
    const ArrayEnd array = run_array(run, *request, plan, state, signals, !flags.no_follow);
    if (array.goes_on) {
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

}  // namespace

int sweep(const Arguments& arguments) {
  SweepFlags flags;
  VerbParser parser(
      "hookline sweep FILE [flags]",
      "Run a program with every combination of values that a file names, compare what it logs, and write the "
      "best config. A sweep that was stopped or killed continues when the same command runs again.",
      "hookline sweep hooks.toml");
  parser.add_text("--output", flags.output, "DIR",
                  "Folder of the results; else hookline-sweeps/NAME, after the file's name");
  parser.add_flag("--dry-run", flags.dry_run, "List the trials, and run none of them");
  parser.add_flag("--retry-failed", flags.retry_failed,
                  "Run failed trials and those that were stopped early again");
  parser.add_texts("--rerun", flags.rerun, "ID", "Run a finished trial again; once for each");
  parser.add_flag("--repair", flags.repair,
                  "Rebuild a damaged state.sqlite from its intact rows, keep a copy of it, and run the other "
                  "trials again");
  parser.add_flag("--json", flags.json, "Print a JSON object per trial, or per row of the results");
  parser.add_text("--scheduler", flags.scheduler, "S",
                  "slurm: run the trials as an array job instead of on this machine");
  parser.add_texts("--scheduler-arg", flags.scheduler_arguments, "ARG",
                   "An argument of sbatch, such as --time=01:00:00; once for each");
  parser.add_text("--template", flags.template_file, "FILE",
                  "Template of the array job to use instead of the built-in one");
  parser.add_flag("--print", flags.print, "Print the array job instead of submitting it");
  parser.add_flag("--no-follow", flags.no_follow,
                  "Return when the array job is queued; run the same command again to collect its results");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("sweep file", 1, 1);
  flags.check();

  const fs::path file = parser.plain()[0];
  expect_access(file);
  const std::string program = program_named_in(file);
  const CatalogOf hooks = catalog_of_named(program);
  const ReadSweep read =
      read_sweep(file, hooks.catalog, flags.on_slurm() ? SweepRunner::array_job : SweepRunner::this_process);
  if (!read.ok) {
    std::cerr << read.report << std::flush;
    return kBadInput;
  }
  const SweepSettings& settings = read.sweep.settings;
  Variables variables = variables_for_jobs();
  if (flags.on_slurm()) variables = exported_by_sbatch(variables, flags.scheduler_arguments);
  SweepCells cells(file, read.sweep, hooks, /*run_here=*/!flags.on_slurm(),
                   value_of(variables, "OMP_NUM_THREADS"));
  SweepPlan plan;
  try {
    plan = plan_of(read.sweep, [&](const Assignments& values) { return cells.cell(values); });
  } catch (const Error& error) {
    log::error(error.what());
    return kBadInput;
  }
  for (const std::string& remark : plan.remarks) log::warning(remark);
  try {
    const bool refuses = settings.invalid == "refuse";
    list_invalid(plan, read.sweep.fixed, refuses, flags.dry_run ? plan.invalid.size() : kMostShown);
    if (refuses && !plan.invalid.empty()) return kBadInput;
    list_never_starting(plan, read.sweep.fixed, flags.dry_run ? plan.never_starting.size() : kMostShown);
    if (!program.empty()) warn_of_script(program, cells.keys_of_ranks());
    if (plan.trials.empty()) {
      log::error("'" + file.string() + "' comes to no trial that can run");
      return kBadInput;
    }
    if (flags.dry_run) {
      print_plan(plan, read.sweep.fixed, flags.json);
      return kSuccess;
    }
    SweepRun run;
    run.folder = fs::absolute(flags.output.empty() ? fs::path("hookline-sweeps") / file.stem()
                                                   : fs::path(flags.output))
                     .lexically_normal();
    expect_access(run.folder);
    run.hookline = fs::read_symlink("/proc/self/exe");
    run.settings = settings;
    run.machine = machine();
    run.most_ranks = cells.most_ranks();
    run.uses_gpus = cells.needed().gpus > 0;
    run.same = read.sweep.fixed;
    run.keys_of_ranks = cells.keys_of_ranks();
    run.is_terminal = isatty(2) != 0;
    run.again = flags.again();
    SweepFacts facts = facts_of(file, read.sweep, run.machine, arguments);
    std::optional<ArrayRequest> request;
    if (flags.on_slurm()) {
      request = request_of(run, cells.needed(), facts.name, flags);
      const std::string warning = sbatch_lines(request->needed, request->scheduler_arguments).warning;
      if (!warning.empty()) log::warning(warning);
      if (flags.print) return print_job(run, plan, *request, flags);
      facts.machine = "Slurm, submitted from " + host_name();
    } else {
      check_places(run, plan.trials.size());
    }
    return run_and_report(run, plan, facts, request, flags);
  } catch (const TemplateError& error) {
    throw UsageError("the template '" + flags.template_file + "', " + error.what());
  } catch (const FolderAccessError&) {  // of the results: bad input, as for every verb
    throw;
  } catch (const SlurmError& error) {
    log::error(error.what());
    return kFailure;
  } catch (const Error& error) {
    log::error(error.what());
    return kFailure;
  }
}

}  // namespace hookline
