// hookline sweep: runs a program with many configs, and reports which is best.
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/folder_access.h"
#include "base/log.h"
#include "launcher/cli/sweep_points.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/cli/verbs/sweep/flags.h"
#include "launcher/cli/verbs/sweep/on_slurm.h"
#include "launcher/cli/verbs/sweep/remarks.h"
#include "launcher/cli/verbs/sweep/run_and_report.h"
#include "launcher/cli/verbs/sweep/sweep_facts.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/process/exit_code.h"
#include "launcher/process/machine.h"
#include "launcher/schedulers/job_environment.h"
#include "launcher/schedulers/job_text.h"
#include "launcher/schedulers/sbatch_lines.h"
#include "launcher/schedulers/slurm_job.h"
#include "launcher/sweep/array_job.h"
#include "launcher/sweep/run_sweep.h"

namespace hookline {
namespace fs = std::filesystem;

int sweep(const Arguments& arguments) {
  SweepFlags flags;
  VerbParser parser(
      "hookline sweep FILE [flags]",
      "Run a program with every combination of values that a file names, compare what it logs, and write the "
      "best config. A sweep that was stopped or killed continues when the same command runs again.",
      "hookline sweep hooks.toml");
  flags.add_to(parser);
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
  SweepPoints points(file, read.sweep, hooks, /*run_here=*/!flags.on_slurm(),
                     value_of(variables, "OMP_NUM_THREADS"));
  SweepPlan plan;
  try {
    plan = plan_of(read.sweep, [&](const Assignments& values) { return points.point(values); });
  } catch (const Error& error) {
    log::error(error.what());
    return kBadInput;
  }
  const Assignments same = same_in(read.sweep);
  for (const std::string& remark : plan.remarks) log::warning(remark);
  warn_of_ignored_variables();
  try {
    const bool refuses = settings.invalid == "refuse";
    list_invalid(plan, same, refuses, flags.dry_run ? plan.invalid.size() : kMostShown);
    if (refuses && !plan.invalid.empty()) return kBadInput;
    list_never_starting(plan, same, flags.dry_run ? plan.never_starting.size() : kMostShown);
    if (!program.empty()) warn_of_script(program, points.keys_of_ranks());
    if (plan.trials.empty()) {
      log::error("none of the trials in '" + file.string() + "' can run");
      return kBadInput;
    }
    if (flags.dry_run) {
      print_plan(plan, same, flags.json);
      return kSuccess;
    }
    SweepRun run;
    run.folder = fs::absolute(flags.output.empty() ? fs::path("hookline-sweeps") / file.stem()
                                                   : fs::path(flags.output))
                     .lexically_normal();
    expect_access(run.folder);
    run.hookline = fs::read_symlink("/proc/self/exe");
    run.settings = settings;
    run.machine = machine_for_trials();
    run.most_ranks = points.most_ranks();
    run.uses_gpus = points.needed().gpus > 0;
    run.same = same;
    run.keys_of_ranks = points.keys_of_ranks();
    run.is_terminal = isatty(2) != 0;
    run.again = flags.again();
    SweepFacts facts = facts_of(file, read.sweep, run.machine, arguments);
    std::optional<ArrayRequest> request;
    if (flags.on_slurm()) {
      request = request_of(run, points.needed(), facts.name, flags);
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
  } catch (const FolderAccessError&) {  // the results folder: bad input, as for every verb
    throw;
  } catch (const Error& error) {
    log::error(error.what());
    return kFailure;
  }
}

}  // namespace hookline
