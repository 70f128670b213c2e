// hookline config show: every value that a run would get, and where it comes from.
#include <iostream>

#include "config/print.h"
#include "config/resolve.h"
#include "launcher/cli/config_choice.h"
#include "launcher/cli/overrides.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/process/exit_code.h"

namespace hookline {

int config_show(const Arguments& arguments) {
  bool json = false;
  std::string program;
  std::vector<std::string> sets;
  ConfigChoice choice;
  VerbParser parser(
      "hookline config show [FILE] [flags]",
      "Show every value that a run would get, and where it comes from: command line, environment, "
      "file or default. Without FILE, it shows the config that 'hookline config where' names.",
      "hookline config show run.toml --set ddp.comm_hook=fp16");
  parser.add_flag("--json", json, "Print JSON");
  choice.add_profile_flag(parser);
  parser.add_program(program);
  parser.add_texts("--set", sets, "KEY=VALUE", "Any value of the config, such as logging.level=debug");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("config file", 0, 1);

  const CatalogOf hooks = catalog_of_named(program);
  if (!parser.plain().empty()) choice.file = parser.plain().front();
  Sources sources = choice.sources();
  sources.overrides = overrides_from_sets(sets);
  expect_each_key_once(sources.overrides);
  hooks.apply_to(sources);
  const Resolution resolution = resolve(sources, hooks.catalog);
  std::cerr << resolution.report() << std::flush;
  if (!resolution.ok()) return kBadInput;
  tell_found_config(choice, sources, "as in: hookline config show FILE");
  std::cout << (json ? to_json(resolution.config) : to_toml(resolution.config)) << std::flush;
  return kSuccess;
}

}  // namespace hookline
