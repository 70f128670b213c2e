// hookline config show: every value that a run would get, and where it comes from.
#include <iostream>

#include "config/print.h"
#include "config/resolve.h"
#include "launcher/cli/catalog_of.h"
#include "launcher/cli/exit_code.h"
#include "launcher/cli/overrides.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"

namespace hookline {

int config_show(const Arguments& arguments) {
  bool json = false;
  std::string program;
  std::vector<std::string> sets;
  VerbParser parser(
      "hookline config show [FILE] [flags]",
      "Show every value that a run would get, and where it comes from: command line, environment, "
      "file or default.",
      "hookline config show run.toml --set ddp.comm_hook=fp16");
  parser.app().add_flag("--json", json, "Print JSON");
  parser.add_program(program);
  parser.add_assignments("--set", sets, "Any value of the config, such as logging.level=debug");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("config file", 0, 1);

  const CatalogOf hooks = catalog_of_named(program);
  Sources sources;
  if (!parser.plain().empty()) sources.file = parser.plain().front();
  sources.environment = hookline_environment();
  sources.overrides = overrides_from_sets(sets);
  expect_each_key_once(sources.overrides);
  sources.allow_program_hooks = hooks.hooks_may_follow;
  sources.program_build = hooks.build;
  const Resolution resolution = resolve(sources, hooks.catalog);
  std::cerr << resolution.report() << std::flush;
  if (!resolution.ok()) return kBadInput;
  std::cout << (json ? to_json(resolution.config) : to_toml(resolution.config)) << std::flush;
  return kSuccess;
}

}  // namespace hookline
