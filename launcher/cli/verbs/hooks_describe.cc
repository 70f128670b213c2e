// hookline hooks describe: one hook and its options.
#include <iostream>

#include "base/text/printable.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/process/exit_code.h"

namespace hookline {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

const HookRow& find_hook(const Catalog& catalog, const std::string& name) {
  if (const HookRow* row = catalog.find_hook(name)) return *row;
  std::vector<std::string> names;
  for (const HookRow& row : catalog.hooks()) {
    names.push_back(row.name);
    names.insert(names.end(), row.aliases.begin(), row.aliases.end());
  }
  throw UsageError("no hook is called '" + name + "'" + suggestion(name, names) +
                   "\n  hooks: " + joined(names));
}

std::string wrapping(const HookRow& row) {
  if (row.half_precision) return "none: it sends half precision by itself";
  return row.wrappable ? "yes: comm_wrapper changes the precision it works in" : "none: it can't be wrapped";
}

void print_text(const HookRow& row) {
  std::cout << row.name << "\n  " << printable(row.summary) << "\n\n";
  if (!row.aliases.empty()) std::cout << "  also called  " << joined(row.aliases) << "\n";
  std::cout << "  wrapper      " << wrapping(row) << "\n";
  if (!row.averages) std::cout << "  result       does not average: ranks drift apart\n";
  if (!row.parity.empty()) std::cout << "  matches      " << printable(row.parity) << "\n";
  std::cout << "  source       " << printable(row.source) << "\n";
  if (!row.plugin.empty()) std::cout << "  plug-in      " << printable(row.plugin) << "\n";
  std::cout << "\n";
  if (row.options.empty()) {
    std::cout << "It has no options.\n";
    return;
  }
  std::cout << "Options ([ddp.comm_state_option]), with their defaults:\n";
  for (const OptionRow& option : row.options) {
    std::cout << "  " << option.name << " = " << to_text(option.default_value);
    if (!option.unit.empty()) std::cout << "  # " << printable(option.unit);
    std::cout << "\n      " << printable(option.help) << "\n      Accepts " << allowed_text(option) << ".\n";
  }
}

}  // namespace

int hooks_describe(const Arguments& arguments) {
  bool json = false;
  std::string program;
  std::vector<std::string> plugins;
  VerbParser parser("hookline hooks describe NAME [flags]", "Describe a communication hook and its options.",
                    "hookline hooks describe power_sgd");
  parser.add_flag("--json", json, "Print JSON");
  parser.add_program(program);
  parser.add_plugins(plugins);
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("hook's name", 1, 1);

  const Catalog catalog = catalog_of_named(program, plugins).catalog;
  const HookRow& row = find_hook(catalog, parser.plain().front());
  if (json)
    std::cout << to_json(row) << "\n";
  else
    print_text(row);
  std::cout << std::flush;
  return kSuccess;
}

}  // namespace hookline
