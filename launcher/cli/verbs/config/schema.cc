// hookline config schema: prints a JSON Schema with which editors check and complete config files.
#include <iostream>

#include "config/json_schema.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/process/exit_code.h"

namespace hookline {

int config_schema(const Arguments& arguments) {
  std::string program;
  std::vector<std::string> plugins;
  VerbParser parser("hookline config schema [flags]",
                    "Print a JSON Schema of config files, with which editors complete and check them.",
                    "hookline config schema > hookline.schema.json");
  parser.add_program(program);
  parser.add_plugins(plugins);
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("", 0, 0);
  std::cout << json_schema(catalog_of_named(program, plugins).catalog) << std::flush;
  return kSuccess;
}

}  // namespace hookline
