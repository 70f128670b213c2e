// hookline config validate: checks files as `launch` would, without running anything.
#include <algorithm>
#include <cstddef>
#include <iostream>
#include <limits>

#include "config/resolve.h"
#include "launcher/cli/catalog_of.h"
#include "launcher/cli/exit_code.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"

namespace hookline {

int config_validate(const Arguments& arguments) {
  std::string program;
  VerbParser parser("hookline config validate FILE... [flags]",
                    "Check config files, each by itself: environment and command line are left out.",
                    "hookline config validate run.toml");
  parser.add_program(program);
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("config file", 1, std::numeric_limits<std::size_t>::max());

  const CatalogOf hooks = catalog_of_named(program);
  bool all_ok = true;
  for (const std::string& file : parser.plain()) {
    Sources sources;
    sources.file = file;
    sources.allow_program_hooks = hooks.hooks_may_follow;
    sources.program_build = hooks.build;
    const Resolution resolution = resolve(sources, hooks.catalog);
    std::cerr << resolution.report() << std::flush;
    const bool hook_is_unknown =
        std::any_of(resolution.diagnostics.begin(), resolution.diagnostics.end(),
                    [](const Diagnostic& each) { return each.message.starts_with("unknown hook"); });
    if (hook_is_unknown && program.empty())
      std::cerr << "if your program registers that hook: hookline config validate " << file
                << " --program PROG\n"
                << std::flush;
    if (resolution.ok()) std::cout << file << ": ok\n" << std::flush;
    all_ok = all_ok && resolution.ok();
  }
  return all_ok ? kSuccess : kBadInput;
}

}  // namespace hookline
