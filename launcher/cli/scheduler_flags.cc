#include "launcher/cli/scheduler_flags.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "launcher/cli/arguments.h"
#include "launcher/schedulers/job_text.h"
#include "launcher/schedulers/sbatch_lines.h"

namespace hookline {
namespace {

/// Does an option of Open MPI or MPICH set the number of processes? Both take it with one dash or two; `name`
/// has none.
bool is_process_count(std::string_view name) {
  static constexpr std::array<std::string_view, 10> kOptions = {
      "c", "n", "np", "N", "npernode", "npersocket", "pernode", "ppn", "perhost", "ppr"};
  return std::find(kOptions.begin(), kOptions.end(), name) != kOptions.end();
}

/// Does `value` ask for a number of processes, as "ppr:2:node" or "ppr:1:socket" does, other than one on
/// each node?
bool maps_processes(std::string_view value) {
  return value.starts_with("ppr:") && value != "ppr:1:node" && !value.starts_with("ppr:1:node:");
}

}  // namespace

std::string template_text(const std::string& file, const std::string& built_in) {
  return file.empty() ? std::string(built_in_template(built_in)) : text_of_file(file);
}

void expect_options(const std::vector<std::string>& scheduler_arguments) {
  std::string former;  // an option that may have its value in the next argument
  for (const std::string& argument : scheduler_arguments) {
    if (!argument.starts_with("-"))
      throw UsageError("--scheduler-arg '" + argument + "' is not an option: write --scheduler-arg=" +
                       (former.empty() ? "--" : former + "=") + argument);
    const bool may_lack_value = argument.starts_with("--") && argument.find_first_of("= ") == argument.npos;
    former = may_lack_value ? argument : "";
  }
}

void expect_own_log(const std::vector<std::string>& scheduler_arguments) {
  const std::string option = log_option(scheduler_arguments);
  if (option.empty()) return;
  throw UsageError(
      "--scheduler-arg '" + option +
      "' would move the job's output away from the file that hookline reads and names: leave it out, or "
      "write the script with --print and submit it yourself");
}

void expect_words(const std::vector<std::string>& scheduler_arguments) {
  if (!scheduler_arguments.empty() && !scheduler_arguments[0].starts_with("-"))
    throw UsageError(
        "--scheduler-arg '" + scheduler_arguments[0] +
        "' is not an option, and an option must come before its values: write --scheduler-arg=--" +
        scheduler_arguments[0]);
  for (const std::string& argument : scheduler_arguments) {
    const auto end = argument.find_first_of(" =");
    if (!argument.starts_with("-") || end == argument.npos || argument[end] == '=') continue;
    throw UsageError("--scheduler-arg '" + argument + "' would be one word: write --scheduler-arg=" +
                     argument.substr(0, end) + " --scheduler-arg=" + argument.substr(end + 1));
  }
}

void expect_no_process_count(const std::vector<std::string>& scheduler_arguments) {
  for (const std::string& argument : scheduler_arguments) {
    const std::string_view word = argument;
    const bool is_option = word.starts_with("-");
    const std::string_view whole = word.substr(std::min(word.find_first_not_of('-'), word.size()));
    const auto equals = is_option ? whole.find('=') : whole.npos;
    const std::string_view value = is_option ? whole.substr(std::min(equals, whole.size() - 1) + 1) : word;
    if (!maps_processes(value) && !(is_option && is_process_count(whole.substr(0, equals)))) continue;
    throw UsageError(
        "--scheduler-arg '" + argument +
        "' asks for processes in addition to hookline's own -np, which is one launcher on each node: write "
        "--nodes N before the program");
  }
}

}  // namespace hookline
