// hookline hooks list: the names that comm_hook and comm_wrapper take.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/text/printable.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/process/exit_code.h"

namespace hookline {
namespace {

std::string names_of(const HookRow& row) {
  std::string names = row.name;
  for (const std::string& alias : row.aliases) names += ", " + alias;
  return names;
}

void print_text(const Catalog& catalog) {
  std::size_t width = 0;
  for (const HookRow& row : catalog.hooks()) width = std::max(width, names_of(row).size());
  const auto print_row = [width](std::string names, const std::string& summary) {
    names.resize(std::max(names.size(), width), ' ');
    std::cout << "  " << names << "  " << printable(summary) << "\n";
  };
  std::cout << "Hooks (comm_hook in [ddp]):\n";
  for (const HookRow& row : catalog.hooks()) print_row(names_of(row), row.summary);
  std::cout << "\nWrappers (comm_wrapper in [ddp]):\n";
  for (const WrapperRow& row : catalog.wrappers()) print_row(row.name, row.summary);
  std::cout << "\n'hookline hooks describe NAME' prints a hook's options. With comm_hook = \"auto\", "
               "hookline chooses the hook by measuring.\n";
}

void print_json(const Catalog& catalog) {
  nlohmann::ordered_json document = {{"hooks", nlohmann::json::array()},
                                     {"wrappers", nlohmann::json::array()}};
  for (const HookRow& row : catalog.hooks())
    document["hooks"].push_back(nlohmann::ordered_json::parse(to_json(row)));
  for (const WrapperRow& row : catalog.wrappers())
    document["wrappers"].push_back(
        {{"name", row.name}, {"summary", row.summary}, {"dtype", row.dtype}, {"parity", row.parity}});
  std::cout << document.dump(2) << "\n";
}

}  // namespace

int hooks_list(const Arguments& arguments) {
  bool json = false;
  std::string program;
  std::vector<std::string> plugins;
  VerbParser parser("hookline hooks list [flags]", "List the communication hooks and wrappers.",
                    "hookline hooks list --program ./train");
  parser.add_flag("--json", json, "Print JSON");
  parser.add_program(program);
  parser.add_plugins(plugins);
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("", 0, 0);

  const Catalog catalog = catalog_of_named(program, plugins).catalog;
  json ? print_json(catalog) : print_text(catalog);
  std::cout << std::flush;
  return kSuccess;
}

}  // namespace hookline
