#include "config/print.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text/printable.h"
#include "config/schema/origin_text.h"
#include "config/schema/schema.h"
#include "config/toml/edit.h"

namespace hookline {
namespace {

using Json = nlohmann::ordered_json;

Origin origin_of(const RunConfig& config, const std::string& key) {
  const auto found = config.origins.find(key);
  return found == config.origins.end() ? Origin{} : found->second;
}

}  // namespace

std::vector<ShownValue> shown_values(const RunConfig& config) {
  std::vector<ShownValue> lines;
  for (const KeyRow& row : schema())
    lines.push_back({row.table, row.option.name, row.get(config), origin_of(config, row.key())});
  std::vector<ShownValue> options;
  for (const auto& [name, value] : config.ddp.comm_state_option)
    options.push_back(
        {kHookOptionTable, name, value, origin_of(config, std::string(kHookOptionTable) + "." + name)});
  const auto behind_ddp = std::find_if(lines.rbegin(), lines.rend(), [](const ShownValue& line) {
                            return line.table == "ddp";
                          }).base();
  lines.insert(behind_ddp, options.begin(), options.end());
  return lines;
}

std::string tables_of(const std::vector<ShownValue>& values,
                      const std::function<std::string(const ShownValue&, std::string assignment)>& shown) {
  std::string text, table;
  for (const ShownValue& value : values) {
    if (value.table != table) text += (text.empty() ? "[" : "\n[") + value.table + "]\n";
    table = value.table;
    text += shown(value, key_text({value.name}) + " = " + to_text(value.value)) + "\n";
  }
  return text;
}

std::string to_toml(const RunConfig& config) {
  const std::vector<ShownValue> lines = shown_values(config);
  std::size_t widest = 0;
  for (const ShownValue& line : lines)
    widest = std::max(widest, key_text({line.name}).size() + 3 + to_text(line.value).size());
  widest = std::min<std::size_t>(widest, 60);
  return tables_of(lines, [widest](const ShownValue& line, std::string assignment) {
    assignment.resize(std::max(assignment.size(), widest), ' ');
    return assignment + "  # " + origin_text(line.origin);
  });
}

std::string chosen_to_toml(const RunConfig& config) {
  std::vector<ShownValue> lines = shown_values(config);
  std::erase_if(lines, [](const ShownValue& line) { return line.origin.kind == OriginKind::default_value; });
  return tables_of(lines, [](const ShownValue&, std::string assignment) { return assignment; });
}

std::string to_json(const RunConfig& config) {
  Json json;
  for (const ShownValue& line : shown_values(config)) {
    Json value = std::visit([](const auto& held) { return Json(held); }, line.value);
    Json entry = {{"value", value}, {"origin", origin_name(line.origin.kind)}, {"where", line.origin.where}};
    Json* table = &json;
    for (std::size_t at = 0; at < line.table.size();) {
      const std::size_t end = std::min(line.table.find('.', at), line.table.size());
      table = &(*table)[line.table.substr(at, end - at)];
      at = end + 1;
    }
    (*table)[line.name] = std::move(entry);
  }
  // Paths and variables may hold bytes that are not UTF-8. JSON can't hold these, so they are replaced.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hookline
