// hookline config default: a file to start from.
#include <iostream>

#include "base/log.h"
#include "config/starting_file.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/cli/verbs/config/written_file.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/process/exit_code.h"

namespace hookline {

int config_default(const Arguments& arguments) {
  std::string program;
  WrittenFile output;
  VerbParser parser("hookline config default [--output FILE] [flags]",
                    "Print a config file with every key, its meaning and its default, for you to edit.",
                    "hookline config default --output hookline.toml");
  output.add_flags(parser);
  parser.add_program(program);
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("", 0, 0);
  return output.write(starting_file(catalog_of_named(program).catalog));
}

}  // namespace hookline
