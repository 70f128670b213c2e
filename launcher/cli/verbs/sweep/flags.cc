#include "launcher/cli/verbs/sweep/flags.h"

#include <utility>

#include "launcher/cli/scheduler_flags.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/schedulers/sbatch_lines.h"

namespace hookline {
void SweepFlags::check() const {
  if (on_slurm() && scheduler != "slurm")
    throw UsageError("there is no scheduler '" + scheduler + "' for a sweep: it is slurm");
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
    throw UsageError("--no-follow and --print don't go together: what is printed is submitted by nobody");
  expect_options(scheduler_arguments);
  for (const LayoutOption& option : layout_options(scheduler_arguments))
    if (option.value != "1")
      throw UsageError("--scheduler-arg '" + option.word + "' asks for " +
                       (option.is_of_nodes ? "nodes" : "tasks") +
                       ", and a trial is one task on one node, which starts its ranks: leave it out; "
                       "launch.processes_per_node in the sweep file says how many they are");
  expect_own_log(scheduler_arguments);
  for (const std::string& argument : scheduler_arguments) {
    if (argument.starts_with("-a") || names_option(argument, "--array"))
      throw UsageError("--scheduler-arg '" + argument +
                       "' would number other trials than the sweep's: it has one element for each");
    if (argument.starts_with("-M") || names_option(argument, "--clusters"))
      throw UsageError("--scheduler-arg '" + argument +
                       "' leads to another cluster, whose queue is not asked: submit from one of its own "
                       "machines");
  }
}

}  // namespace hookline
