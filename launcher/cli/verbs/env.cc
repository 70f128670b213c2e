// hookline env: what a bug report needs.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "config/print.h"
#include "config/resolve.h"
#include "config/schema/origin_text.h"
#include "hooks/catalog/hook_rows.h"
#include "launcher/cli/config_choice.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/facts/facts.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/launch/libexec.h"
#include "launcher/process/exit_code.h"
#include "launcher/process/shell.h"

namespace hookline {
namespace {

/// What a rank finds of libtorch. A rank's program reports it, since the launcher loads no libtorch.
Facts libtorch_facts() {
  const std::filesystem::path file = libexec_program("self_test_rank");
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    return "none: this is the launcher alone (the Python package hookline-torch has what loads it), a "
           "checkout that was built in part only (./dev build builds the rest), or a hookline that was moved";
  std::vector<std::string> command;
  try {
    command = command_of(libexec_rank("self_test_rank", "reports versions"), {"--versions"});
  } catch (const ProgramError& problem) {
    return problem.what();
  }
  const CommandOutput output = output_of(command);
  Facts facts = Facts::parse(output.text, nullptr, /*allow_exceptions=*/false);
  if (output.exit_code == 0 && facts.is_object()) return facts;
  return "'" + file.string() + "' can't be run: " + output.text;
}

/// The file that a launch here would read, and the values that are not defaults.
Facts config_facts(const ConfigChoice& choice) {
  const CatalogOf hooks = catalog_of_libexec("self_test_rank");
  const Sources sources = choice.sources();
  Facts facts;
  facts["file"] = sources.file ? sources.file->string() : "none";
  const Resolution resolution = resolve(sources, hooks.catalog);
  if (!resolution.ok()) {
    facts["problems"] = resolution.report();
    return facts;
  }
  Facts values = Facts::object();
  for (const ShownValue& value : shown_values(resolution.config)) {
    if (value.origin.kind == OriginKind::default_value) continue;
    values[value.table + "." + value.name] = to_text(value.value) + "  # " + origin_text(value.origin);
  }
  facts["values"] = values;
  return facts;
}

}  // namespace

int env(const Arguments& arguments) {
  ConfigChoice choice;
  bool json = false;
  VerbParser parser("hookline env [flags]",
                    "Show what a bug report needs: versions, processors, GPUs, network, limits, the "
                    "variables that affect ranks, and the config that a launch would read here.",
                    "hookline env --json");
  choice.add_file_flag(parser);
  choice.add_profile_flag(parser);
  parser.add_flag("--json", json, "Print JSON");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("", 0, 0);

  Facts facts;
  facts["hookline"] = {{"version", HOOKLINE_VERSION},
                       {"compiler", "g++ " __VERSION__},
                       {"program", std::filesystem::read_symlink("/proc/self/exe").string()}};
  facts["libtorch"] = libtorch_facts();
  facts["system"] = system_facts();
  facts["machine"] = machine_facts();
  facts["isolation"] = isolation_facts();
  facts["gpus"] = gpu_facts();
  facts["network"] = network_facts();
  facts["limits"] = limit_facts();
  facts["variables"] = variable_facts();
  facts["config"] = config_facts(choice);
  std::cout << (json ? facts.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                     : text_of(facts))
            << std::flush;
  return kSuccess;
}

}  // namespace hookline
