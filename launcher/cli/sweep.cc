// hookline sweep: runs a program with many configs, and says which is best.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/replace_file.h"
#include "config/visible_gpus.h"
#include "hooks/error.h"
#include "hooks/log.h"
#include "hooks/printable.h"
#include "launcher/cli/catalog_of.h"
#include "launcher/cli/count_text.h"
#include "launcher/cli/exit_code.h"
#include "launcher/cli/scheduler_flags.h"
#include "launcher/cli/sweep_cells.h"
#include "launcher/cli/unread_config.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/schedulers/job_text.h"
#include "launcher/schedulers/slurm_job.h"
#include "launcher/supervise/machine.h"
#include "launcher/supervise/program.h"
#include "launcher/supervise/shell.h"
#include "launcher/sweep/known_trials.h"
#include "launcher/sweep/run_array.h"
#include "launcher/sweep/run_sweep.h"
#include "launcher/sweep/table.h"
#include "launcher/sweep/trial_files.h"

namespace hookline {
namespace {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostShown = 20;

/// "--arr=1-3" is what getopt takes for --array; of fewer than two letters it asks which is meant.
bool is_short_for(std::string_view option, std::string_view argument) {
  constexpr std::size_t kLeast = 4;
  const std::string_view name = argument.substr(0, argument.find('='));
  return name.size() >= kLeast && option.starts_with(name);
}

struct Flags {
  std::string output, scheduler, template_file;
  std::vector<std::string> rerun, scheduler_arguments;
  bool retry_failed = false, dry_run = false, json = false, print = false, no_follow = false;

  bool on_slurm() const { return !scheduler.empty(); }

  /// Those that run again what has a result.
  std::string again() const {
    std::string names = retry_failed ? "--retry-failed" : "";
    if (!rerun.empty()) names += std::string(names.empty() ? "" : " and ") + "--rerun";
    return names;
  }

  /// Throws UsageError.
  void check() const {
    if (on_slurm() && scheduler != "slurm")
      throw UsageError("there is no scheduler '" + scheduler + "' for a sweep: it is slurm");
    for (const auto& [is_given, name] : {std::pair(print, "--print"), std::pair(no_follow, "--no-follow"),
                                         std::pair(!template_file.empty(), "--template"),
                                         std::pair(!scheduler_arguments.empty(), "--scheduler-arg")})
      if (is_given && !on_slurm()) throw UsageError(std::string(name) + " goes with --scheduler slurm");
    for (const auto& [is_given, name] :
         {std::pair(retry_failed, "--retry-failed"), std::pair(!rerun.empty(), "--rerun"),
          std::pair(print, "--print"), std::pair(no_follow, "--no-follow"),
          std::pair(!template_file.empty(), "--template"),
          std::pair(!scheduler_arguments.empty(), "--scheduler-arg")})
      if (is_given && dry_run)
        throw UsageError(std::string(name) +
                         " and --dry-run don't go together: --dry-run shows the plan alone");
    for (const auto& [is_given, name] : {std::pair(print, "--print"), std::pair(no_follow, "--no-follow")})
      if (is_given && json)
        throw UsageError(std::string("--json and ") + name +
                         " don't go together: there are no results to print then");
    if (print && no_follow)
      throw UsageError("--no-follow and --print don't go together: what is printed is submitted by nobody");
    expect_options(scheduler_arguments);
    for (const std::string& argument : scheduler_arguments) {
      if (argument.starts_with("-a") || is_short_for("--array", argument))
        throw UsageError("--scheduler-arg '" + argument +
                         "' would number other trials than the sweep's: it has one element for each");
      if (argument.starts_with("-M") || is_short_for("--clusters", argument))
        throw UsageError("--scheduler-arg '" + argument +
                         "' leads to another cluster, whose queue is not asked: submit from one of its own "
                         "machines");
    }
  }
};

/// `most` of them.
void list_invalid(const SweepPlan& plan, const Assignments& same, bool refuses, std::size_t most) {
  if (plan.invalid.empty()) return;
  log::warning(count_text(plan.invalid.size(), "combination") + " can't run" +
               (refuses                    ? " (invalid = \"refuse\")"
                : plan.invalid.size() == 1 ? ", and is left out"
                                           : ", and are left out"));
  for (std::size_t i = 0; i < plan.invalid.size() && i < most; ++i) {
    std::cerr << "  " << printable(label_of(plan.invalid[i].values, same)) << "\n";
    std::istringstream lines(plan.invalid[i].problems);
    for (std::string line; std::getline(lines, line);) std::cerr << "    " << line << "\n";
  }
  if (plan.invalid.size() > most)
    std::cerr << "  and " << plan.invalid.size() - most << " more, which --dry-run lists\n";
  std::cerr << std::flush;
}

/// A hook that compresses at no step makes a row that looks like an uncompressed one.
void list_never_starting(const SweepPlan& plan, const Assignments& same, std::size_t most) {
  const std::vector<InvalidCell>& cells = plan.never_starting;
  if (cells.empty()) return;
  log::warning(count_text(cells.size(), "combination") + (cells.size() == 1 ? " has" : " have") +
               " a hook that would compress nothing before its trials end");
  for (std::size_t i = 0; i < cells.size() && i < most; ++i)
    std::cerr << "  " << label_of(cells[i].values, same) << "\n    " << cells[i].problems << "\n";
  if (cells.size() > most) std::cerr << "  and " << cells.size() - most << " more, which --dry-run lists\n";
  std::cerr << std::flush;
}

std::string listed(const std::set<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys) text += (text.empty() ? "" : ", ") + key;
  return text;
}

/// Before anything runs: nobody may act on what is tried.
void warn_of_script(const std::string& program, const std::set<std::string>& keys) {
  if (keys.empty() || !is_script(find_program({program}, search_path()))) return;
  log::warning("'" + program + "' is a script, and only a program that is built with hookline acts on " +
               listed(keys) +
               ": unless the script starts one, these settings have no effect, and rows differ by chance");
}

/// After trials have run: nobody has acted on what was tried.
void warn_of_unread_configs(const std::vector<Trial>& trials, const fs::path& folder,
                            const std::set<std::string>& keys) {
  if (keys.empty()) return;
  std::size_t done = 0;
  for (const Trial& trial : trials) {
    if (trial.result.status != TrialStatus::done) continue;
    if (was_config_read(run_of(folder_of_trial(folder, trial.planned.id)))) return;
    ++done;
  }
  if (done > 0)
    log::warning(
        "no rank of any trial has read its config, so these settings had no effect, and rows differ by "
        "chance (a program that is built with hookline reads it in Accelerator::from_env): " +
        listed(keys));
}

void print_plan(const SweepPlan& plan, const Assignments& same, bool json) {
  for (const PlannedTrial& trial : plan.trials) {
    if (json) {
      std::cout << Json{{"id", trial.id},
                        {"values", trial.values},
                        {"program", trial.program},
                        {"repeat", trial.repeat},
                        {"baseline", trial.is_baseline}}
                       .dump()
                << "\n";
      continue;
    }
    const std::string label = printable(label_of(trial.values, same));
    std::cout << trial.id << "  " << (label.empty() ? "(as the config has it)" : label)
              << (trial.is_baseline ? "  (baseline)" : "") << "\n";
  }
  if (!json) {
    std::cout << count_text(plan.trials.size(), "trial") << "\n";
    if (plan.repeats_baseline)
      std::cout
          << "The baseline runs again at the end: the first trial alone, on a cold machine, would make the "
             "others look faster than they are.\n";
  }
  std::cout << std::flush;
}

/// The trials that were asked for again. Throws UsageError.
std::vector<std::string> chosen_again(const Flags& flags, const std::vector<Trial>& trials) {
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

/// What was ended early by another rule than the file's has no result any more; all that it has left stays beside it.
void reset_those_of_other_rules(const SweepRun& run, SweepState& state) {
  std::size_t count = 0;
  for (const Trial& trial : state.trials()) {
    if (!was_ended_by_another_rule(trial.result, yardstick_of(run.settings))) continue;
    set_aside(folder_of_trial(run.folder, trial.planned.id));
    state.reset(trial.planned.id);
    ++count;
  }
  if (count)
    log::info(count_text(count, "trial") + " that " + (count == 1 ? "was" : "were") +
              " ended early, by another rule, metric or goal than the file's, " +
              (count == 1 ? "runs" : "run") + " again");
}

/// They wait again; what they have left stays beside them. Throws UsageError.
void reset_some(const Flags& flags, const fs::path& folder, const TrialsInJobs& busy, SweepState& state) {
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

/// Where to look, and what to do about them.
void tell_of_failures(const std::vector<Trial>& trials, const SweepRun& run) {
  std::vector<std::string> ids;
  for (const Trial& trial : trials)
    if (trial.result.status == TrialStatus::failed) ids.push_back(trial.planned.id);
  if (ids.empty()) return;
  std::string listed;
  for (std::size_t i = 0; i < ids.size() && i < kMostShown; ++i) listed += (i ? ", " : "") + ids[i];
  if (ids.size() > kMostShown) listed += ", …";
  log::info(count_text(ids.size(), "trial") + " failed: " + listed + "; what each said is in " +
            (run.folder / "trials" / "ID" / "output.log").string() + ", and --retry-failed runs " +
            (ids.size() == 1 ? "it" : "them") + " again");
}

/// A row's best trial as a config file; the command to run it.
std::string keep_row(const ResultRow& row, const SweepPlan& plan, const fs::path& file, const char* what) {
  const auto best = std::find_if(plan.trials.begin(), plan.trials.end(),
                                 [&](const PlannedTrial& trial) { return trial.id == row.best_id; });
  replace_file(file, std::string("# ") + what + " of a sweep: trial " + best->id + ", which ran\n#   " +
                         shown_shell_line(best->program) + "\n" + best->cell.config);
  std::vector<std::string> command = {"hookline", "launch", "--config", file.string()};
  for (const auto& [key, name] :
       best->cell.own_folders)  // another run may have left something in the config's
    command.insert(command.end(), {"--set", key + "=" + name + "-" + best->id});
  command.insert(command.end(), best->program.begin(), best->program.end());
  return shown_shell_line(command);
}

/// The winner as a config, and the fastest of those that do as well, if that is another one.
void keep_winners(const std::vector<ResultRow>& rows, const SweepPlan& plan, const SweepRun& run, bool json) {
  const fs::path best = run.folder / "best.toml", fastest = run.folder / "fastest.toml";
  std::error_code none;  // of a sweep that knew less
  if (rows.empty() || rows.front().best_id.empty()) {
    fs::remove(best, none);
    fs::remove(fastest, none);
    return;
  }
  const auto result_of = [&](const ResultRow& row) {
    return row.metric ? run.settings.metric + " " + text_with_spread(*row.metric, row.done) : "no metric";
  };
  std::string text = "\nThe best, with " + result_of(rows.front()) + ", is " + best.string() + ":\n  " +
                     keep_row(rows.front(), plan, best, "The best") + "\n";
  const auto row =
      std::find_if(rows.begin() + 1, rows.end(), [](const ResultRow& each) { return each.is_fastest; });
  if (row == rows.end()) {
    fs::remove(fastest, none);
  } else {
    const std::string command = keep_row(*row, plan, fastest, "The fastest that does as well as the best");
    const std::string speed = row->speedup
                                  ? text_with_spread(*row->speedup, row->done) + " times the baseline's speed"
                                  : "the baseline";
    text += "As good, within the best's spread, and the fastest (" + label_of(row->values, run.same) + ": " +
            result_of(*row) + ", " + speed + ") is " + fastest.string() + ":\n  " + command + "\n";
  }
  if (json) return;
  std::cout << text << "A page of all that was found:\n  "
            << shell_line({"hookline", "report", run.folder.string()}) << "\n";
}

/// Says if trials that run at once have to share cores or GPUs.
void check_places(const SweepRun& run, std::size_t trials) {
  const std::int64_t places = std::min(places_of(run), static_cast<std::int64_t>(trials));
  const auto has = static_cast<std::int64_t>(run.uses_gpus ? static_cast<std::size_t>(run.machine.gpus)
                                                           : run.machine.cores.size());
  if (places > 1 && places * run.most_ranks > has)
    log::warning("max_parallel = " + std::to_string(places) + " trials of up to " +
                 std::to_string(run.most_ranks) + (run.most_ranks == 1 ? " rank" : " ranks") + " share the " +
                 std::to_string(has) + (run.uses_gpus ? " GPUs" : " cores") +
                 " here, and slow each other down");
}

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
ArrayRequest request_of(const SweepRun& run, const std::string& name, const Flags& flags) {
  ArrayRequest request;
  for (const char c : name)
    request.name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ? c : '-';
  request.cpus = run.most_ranks;
  request.gpus = run.uses_gpus ? run.most_ranks : 0;
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
int print_job(const SweepRun& run, const SweepPlan& plan, const ArrayRequest& request, const Flags& flags) {
  std::vector<Trial> trials = recorded_trials(run.folder, plan);
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
                   const std::optional<ArrayRequest>& request, const Flags& flags) {
  Signals signals;
  std::optional<SweepState> held;
  try {
    held.emplace(run.folder);
  } catch (const Error& error) {
    log::error(error.what());
    return kBadInput;
  }
  SweepState& state = *held;
  const PlanChange change = state.take(plan, facts);
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
    std::cout << table_text(rows, run.settings.metric, run.same);
  if (!end.signal) {
    tell_of_failures(trials, run);
    warn_of_unread_configs(trials, run.folder, run.keys_of_ranks);
    keep_winners(rows, plan, run, flags.json);
  }
  std::cout << std::flush;
  return exit_code_of(end);
}

}  // namespace

int sweep(const Arguments& arguments) {
  Flags flags;
  VerbParser parser(
      "hookline sweep FILE [flags]",
      "Run a program with every combination of values that a file names, compare what it logs, and write the "
      "best config. Stopped or killed at any instant, the same command goes on where it was.",
      "hookline sweep hooks.toml");
  parser.add_text("--output", flags.output, "DIR",
                  "Folder of the results; else hookline-sweeps/NAME, after the file's name");
  parser.add_flag("--dry-run", flags.dry_run, "List the trials, and run none");
  parser.add_flag("--retry-failed", flags.retry_failed,
                  "Run those again that have failed, or were stopped early");
  parser.add_texts("--rerun", flags.rerun, "ID", "Run a trial again, though it is done; once for each");
  parser.add_flag("--json", flags.json, "Print a JSON object a trial, or for results one a row");
  parser.add_text("--scheduler", flags.scheduler, "S",
                  "slurm: run the trials as elements of an array job; else they run here");
  parser.add_texts("--scheduler-arg", flags.scheduler_arguments, "ARG",
                   "An argument of sbatch, such as --time=01:00:00; once for each");
  parser.add_text("--template", flags.template_file, "FILE",
                  "Another template of the array job, in place of the built-in one");
  parser.add_flag("--print", flags.print, "Print the array job, and hand it to nobody");
  parser.add_flag("--no-follow", flags.no_follow,
                  "Return when the array job is queued; the same command takes its results in later");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("sweep file", 1, 1);
  flags.check();

  const fs::path file = parser.plain()[0];
  const std::string program = program_named_in(file);
  const CatalogOf hooks = catalog_of_named(program);
  const ReadSweep read =
      read_sweep(file, hooks.catalog, flags.on_slurm() ? SweepRunner::array_job : SweepRunner::this_process);
  if (!read.ok) {
    std::cerr << read.report << std::flush;
    return kBadInput;
  }
  const SweepSettings& settings = read.sweep.settings;
  SweepCells cells(file, read.sweep, hooks, /*run_here=*/!flags.on_slurm());
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
    run.hookline = fs::read_symlink("/proc/self/exe");
    run.settings = settings;
    run.machine = machine();
    run.most_ranks = cells.most_ranks();
    run.uses_gpus = cells.uses_gpus();
    run.same = read.sweep.fixed;
    run.keys_of_ranks = cells.keys_of_ranks();
    run.is_terminal = isatty(2) != 0;
    run.again = flags.again();
    SweepFacts facts = facts_of(file, read.sweep, run.machine, arguments);
    std::optional<ArrayRequest> request;
    if (flags.on_slurm()) {
      request = request_of(run, facts.name, flags);
      if (flags.print) return print_job(run, plan, *request, flags);
      facts.machine = "Slurm, submitted from " + host_name();
    } else {
      check_places(run, plan.trials.size());
    }
    return run_and_report(run, plan, facts, request, flags);
  } catch (const TemplateError& error) {
    throw UsageError("the template '" + flags.template_file + "', " + error.what());
  } catch (const SlurmError& error) {
    log::error(error.what());
    return kFailure;
  } catch (const Error& error) {
    log::error(error.what());
    return kFailure;
  }
}

}  // namespace hookline
