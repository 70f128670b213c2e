#include "launcher/cli/scheduler_flags.h"

#include <fstream>
#include <iterator>

#include "launcher/cli/arguments.h"
#include "launcher/schedulers/job_text.h"

namespace hookline {

std::string text_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw UsageError("'" + file + "' can't be read");
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string template_text(const std::string& file, const std::string& built_in) {
  return file.empty() ? std::string(built_in_template(built_in)) : text_of(file);
}

void expect_options(const std::vector<std::string>& scheduler_arguments) {
  for (const std::string& argument : scheduler_arguments)
    if (!argument.starts_with("-"))
      throw UsageError("--scheduler-arg '" + argument + "' is no option: write --scheduler-arg=--" +
                       argument);
}

}  // namespace hookline
