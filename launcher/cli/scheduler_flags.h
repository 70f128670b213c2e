// What verbs that hand jobs to a scheduler read of their command lines.
#pragma once

#include <string>
#include <vector>

namespace hookline {

/// The template in `file`, or the built-in one if no file is named. Throws UsageError.
std::string template_text(const std::string& file, const std::string& built_in);

/// Throws UsageError unless each --scheduler-arg is an option by itself, as on an #SBATCH line.
void expect_options(const std::vector<std::string>& scheduler_arguments);

/// Throws UsageError if a --scheduler-arg of sbatch's moves the job's output from where hookline reads it.
void expect_own_log(const std::vector<std::string>& scheduler_arguments);

/// Throws UsageError unless the arguments form a command line: options, each followed by its values.
void expect_words(const std::vector<std::string>& scheduler_arguments);

/// Throws UsageError if one of mpirun's says how many processes there are, which hookline does.
void expect_no_process_count(const std::vector<std::string>& scheduler_arguments);

}  // namespace hookline
