#include "launcher/cli/verbs/sweep/flags.h"

#include <utility>

#include "launcher/cli/scheduler_flags.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/schedulers/sbatch_lines.h"

namespace hookline {

void SweepFlags::add_to(VerbParser& parser) {
  parser.add_text("--output", output, "DIR",
                  "Folder of the results; else hookline-sweeps/NAME, after the file's name");
  parser.add_flag("--dry-run", dry_run, "List the trials, and run none of them");
  parser.add_flag("--retry-failed", retry_failed, "Rerun the trials that failed or were stopped early");
  parser.add_texts("--rerun", rerun, "ID", "Run a finished trial again; may be repeated");
  parser.add_flag(
      "--repair", repair,
      "Rebuild a damaged state.sqlite from its intact rows, keep the damaged file as a copy, and rerun "
      "the trials whose rows were lost");
  parser.add_flag("--json", json, "Print a JSON object per row of the results, or with --dry-run per trial");
  parser.add_text("--scheduler", scheduler, "S",
                  "slurm: run the trials as an array job instead of on this machine");
  parser.add_texts("--scheduler-arg", scheduler_arguments, "ARG",
                   "An argument of sbatch, such as --time=01:00:00; may be repeated");
  parser.add_text("--template", template_file, "FILE",
                  "Template of the array job to use instead of the built-in one");
  parser.add_flag("--print", print, "Print the array job instead of submitting it");
  parser.add_flag("--no-follow", no_follow,
                  "Return when the array job is queued; run the same command again to collect its results");
}

void SweepFlags::check() const {
  if (on_slurm() && scheduler != "slurm")
    throw UsageError("there is no scheduler '" + scheduler + "' for a sweep: only slurm");
  for (const auto& [is_given, name] : {std::pair(print, "--print"), std::pair(no_follow, "--no-follow"),
                                       std::pair(!template_file.empty(), "--template"),
                                       std::pair(!scheduler_arguments.empty(), "--scheduler-arg")})
    if (is_given && !on_slurm()) throw UsageError(std::string(name) + " goes with --scheduler slurm");
  for (const auto& [is_given, name] :
       {std::pair(retry_failed, "--retry-failed"), std::pair(!rerun.empty(), "--rerun"),
        std::pair(repair, "--repair"), std::pair(print, "--print"), std::pair(no_follow, "--no-follow"),
        std::pair(!template_file.empty(), "--template"),
        std::pair(!scheduler_arguments.empty(), "--scheduler-arg")})
    if (is_given && dry_run)
      throw UsageError(std::string(name) +
                       " and --dry-run don't go together: --dry-run shows the plan alone");
  for (const auto& [is_given, name] : {std::pair(print, "--print"), std::pair(no_follow, "--no-follow")})
    if (is_given && json)
      throw UsageError(std::string("--json and ") + name +
                       " don't go together: there are no results to print then");
  if (print && repair) throw UsageError("--repair and --print don't go together: --print changes nothing");
  if (print && no_follow)
    throw UsageError(
        "--no-follow and --print don't go together: --print submits no job that could be followed");
  expect_options(scheduler_arguments);
  for (const LayoutOption& option : layout_options(scheduler_arguments))
    if (option.value != "1")
      throw UsageError("--scheduler-arg '" + option.word + "' asks for " +
                       (option.is_of_nodes ? "nodes" : "tasks") +
                       ", and a trial is one task on one node, which starts its ranks: leave it out; "
                       "launch.processes_per_node in the sweep file says how many there are");
  expect_own_log(scheduler_arguments);
  for (const std::string& argument : scheduler_arguments) {
    if (argument.starts_with("-a") || names_option(argument, "--array"))
      throw UsageError("--scheduler-arg '" + argument +
                       "' would change which elements the array job has: leave it out; hookline gives it one "
                       "element for each trial");
    if (argument.starts_with("-M") || names_option(argument, "--clusters"))
      throw UsageError(
          "--scheduler-arg '" + argument +
          "' sends the job to another cluster, whose queue hookline does not query: run this on one of "
          "that cluster's machines");
  }
}

}  // namespace hookline
