#include "config/print.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "config/origin_text.h"
#include "config/schema.h"

namespace hookline {
namespace {

using Json = nlohmann::ordered_json;

std::string key_text(const std::string& name) {
  const auto is_bare = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), is_bare) ? name : to_text(name);
}

Origin origin_of(const RunConfig& config, const std::string& key) {
  const auto found = config.origins.find(key);
  return found == config.origins.end() ? Origin{} : found->second;
}

struct Line {
  std::string table, name;
  OptionValue value;
  Origin origin;
};

/// Every value, table by table; the hook's options follow [ddp].
std::vector<Line> lines_of(const RunConfig& config) {
  std::vector<Line> lines;
  for (const KeyRow& row : schema())
    lines.push_back({row.table, row.option.name, row.get(config), origin_of(config, row.key())});
  std::vector<Line> options;
  for (const auto& [name, value] : config.ddp.comm_state_option)
    options.push_back(
        {kHookOptionTable, name, value, origin_of(config, std::string(kHookOptionTable) + "." + name)});
  const auto behind_ddp =
      std::find_if(lines.rbegin(), lines.rend(), [](const Line& line) { return line.table == "ddp"; }).base();
  lines.insert(behind_ddp, options.begin(), options.end());
  return lines;
}

}  // namespace

std::string origin_name(OriginKind kind) {
  switch (kind) {
    case OriginKind::default_value:
      return "default";
    case OriginKind::file:
      return "file";
    case OriginKind::environment:
      return "environment";
    case OriginKind::command_line:
      return "command line";
  }
  return "default";
}

std::string origin_text(const Origin& origin) {
  if (origin.kind == OriginKind::default_value) return origin_name(origin.kind);
  std::string where = origin.where;
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::any_of(where.begin(), where.end(), is_control) || where.compare(0, 1, "\"") == 0)
    where = to_text(where);
  return "from " + origin_name(origin.kind) + " " + where;
}

std::string to_toml(const RunConfig& config) {
  const std::vector<Line> lines = lines_of(config);
  std::size_t widest = 0;
  for (const Line& line : lines)
    widest = std::max(widest, key_text(line.name).size() + 3 + to_text(line.value).size());
  widest = std::min<std::size_t>(widest, 60);
  std::string text, table;
  for (const Line& line : lines) {
    if (line.table != table) text += (text.empty() ? "[" : "\n[") + line.table + "]\n";
    table = line.table;
    std::string assignment = key_text(line.name) + " = " + to_text(line.value);
    assignment.resize(std::max(assignment.size(), widest), ' ');
    text += assignment + "  # " + origin_text(line.origin) + "\n";
  }
  return text;
}

std::string to_json(const RunConfig& config) {
  Json json;
  for (const Line& line : lines_of(config)) {
    Json value = std::visit([](const auto& held) { return Json(held); }, line.value);
    Json entry = {{"value", value}, {"origin", origin_name(line.origin.kind)}, {"where", line.origin.where}};
    Json& table = line.table == kHookOptionTable ? json["ddp"]["comm_state_option"] : json[line.table];
    table[line.name] = std::move(entry);
  }
  // A path or a variable may hold bytes that are no UTF-8, and JSON has no other way to write them.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hookline
