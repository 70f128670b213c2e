// hookline config diff: shows where two configs differ.
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "config/print.h"
#include "config/resolve.h"
#include "config/schema/origin_text.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/process/exit_code.h"

namespace hookline {
namespace {

constexpr int kDiffer = 1;  // as diff exits

}  // namespace

int config_diff(const Arguments& arguments) {
  bool json = false;
  std::string program;
  VerbParser parser("hookline config diff FILE FILE [flags]",
                    "Show the values in which two configs differ, and where they come from. Environment and "
                    "command line are ignored. Exits with 1 if they differ.",
                    "hookline config diff base.toml run.toml");
  parser.add_flag("--json", json, "Print JSON");
  parser.add_program(program);
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("config file", 2, 2);

  const CatalogOf hooks = catalog_of_named(program);
  std::vector<std::map<std::string, ShownValue>> values;
  for (const std::string& file : parser.plain()) {
    Sources sources;
    sources.file = file;
    hooks.apply_to(sources);
    const Resolution resolution = resolve(sources, hooks.catalog);
    std::cerr << resolution.report() << std::flush;
    if (!resolution.ok()) return kBadInput;
    values.emplace_back();
    for (ShownValue& value : shown_values(resolution.config))
      values.back().emplace(value.key(), std::move(value));
  }
  std::set<std::string> keys;
  for (const auto& side : values)
    for (const auto& [key, value] : side) keys.insert(key);
  nlohmann::ordered_json differences = nlohmann::ordered_json::array();
  std::string text;
  for (const std::string& key : keys) {
    const auto left = values[0].find(key), right = values[1].find(key);
    const bool in_both = left != values[0].end() && right != values[1].end();
    if (in_both && left->second.value == right->second.value) continue;
    // An option of a hook that only one of the two has chosen is shown only if it was set.
    const ShownValue& one = (left != values[0].end() ? left : right)->second;
    if (!in_both && one.origin.kind == OriginKind::default_value) continue;
    const auto shown = [&](std::size_t side) {
      const auto found = values[side].find(key);
      return found == values[side].end()
                 ? std::string("not there")
                 : to_text(found->second.value) + " (" + origin_text(found->second.origin) + ")";
    };
    text += key + "\n  - " + shown(0) + "\n  + " + shown(1) + "\n";
    const auto value_of = [&](std::size_t side) {
      const auto found = values[side].find(key);
      return found == values[side].end()
                 ? nlohmann::ordered_json()
                 : std::visit([](const auto& held) { return nlohmann::ordered_json(held); },
                              found->second.value);
    };
    differences.push_back({{"key", key}, {"first", value_of(0)}, {"second", value_of(1)}});
  }
  std::cout << (json ? differences.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                     : text)
            << std::flush;
  return text.empty() ? kSuccess : kDiffer;
}

}  // namespace hookline
