// hookline config default: a file to start from.
#include <iostream>

#include "config/starting_file.h"
#include "hooks/log.h"
#include "launcher/cli/catalog_of.h"
#include "launcher/cli/config/written_file.h"
#include "launcher/cli/exit_code.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"

namespace hookline {

int config_default(const Arguments& arguments) {
  std::string program;
  WrittenFile output;
  VerbParser parser("hookline config default [--output FILE] [flags]",
                    "Print a config file with every key, its meaning and its default, to be edited.",
                    "hookline config default --output hookline.toml");
  output.add_flags(parser);
  parser.add_program(program);
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("", 0, 0);
  return output.write(starting_file(catalog_of_named(program).catalog));
}

}  // namespace hookline
