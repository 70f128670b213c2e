#include "launcher/cli/scheduler_flags.h"

#include "launcher/cli/arguments.h"
#include "launcher/schedulers/job_text.h"

namespace hookline {

std::string template_text(const std::string& file, const std::string& built_in) {
  return file.empty() ? std::string(built_in_template(built_in)) : text_of_file(file);
}

void expect_options(const std::vector<std::string>& scheduler_arguments) {
  for (const std::string& argument : scheduler_arguments)
    if (!argument.starts_with("-"))
      throw UsageError("--scheduler-arg '" + argument + "' is no option: write --scheduler-arg=--" +
                       argument);
}

}  // namespace hookline
