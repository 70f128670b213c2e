// hookline's own keys in a config of Accelerate: keys that both have, and keys that users have added.
#include <algorithm>
#include <cctype>

#include "config/schema/schema.h"
#include "launcher/import/accelerate_config.h"

namespace hookline {
namespace {

/// The node's text on one line: "[a, b]".
std::string shown(const YAML::Node& node) {
  if (!node.IsSequence()) return text_of(node);
  std::string text;
  for (const YAML::Node& each : node) text += (text.empty() ? "" : ", ") + shown(each);
  return "[" + text + "]";
}

bool is_of_scalars(const YAML::Node& node) {
  return std::all_of(node.begin(), node.end(), [](const YAML::Node& each) { return each.IsScalar(); });
}

/// "power_sgd" for "DDPCommunicationHookType.POWER_SGD", which is how Accelerate writes names.
std::string without_type(const std::string& text) {
  const auto is_of_name = [](unsigned char c) { return std::isupper(c) || std::isdigit(c) || c == '_'; };
  std::string name = text.substr(text.rfind('.') + 1);
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_of_name)) return text;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

std::string scalar_value(const KeyRow& row, const YAML::Node& node) {
  const std::string key = row.key();
  const bool is_hook = key == "ddp.comm_hook" || key == "ddp.comm_wrapper";
  if (!is_hook && row.option.allowed.empty()) return value_of(node);
  const auto allows = [&](const std::string& word) {
    return is_hook || std::count(row.option.allowed.begin(), row.option.allowed.end(), word) > 0;
  };
  if (const auto boolean = boolean_of(node); boolean && allows(*boolean ? "yes" : "no"))
    return *boolean ? "yes" : "no";  // YAML reads these words as true and false
  return without_type(text_of(node));
}

}  // namespace

bool take_own_key(const std::string& key, const YAML::Node& node, const std::string& name,
                  const std::string& flag, Imported& result) {
  if (is_nothing(node)) return true;
  const std::vector<std::string> tables = table_names();
  const bool is_options = key == kHookOptionTable;
  if (is_options || std::count(tables.begin(), tables.end(), key) > 0) {
    if (!node.IsMap()) {
      result.leave_out(name + ": " + shown(node), "[" + key + "] is a table: set its keys");
      return true;
    }
    for (const auto& entry : node) {
      const std::string inner = entry.first.as<std::string>(), inner_name = name + "." + inner;
      if (!take_own_key(key + "." + inner, entry.second, inner_name, "", result))
        result.leave_out(inner_name, "hookline has no such key");
    }
    return true;
  }
  const KeyRow* const row = find_key(key);
  const bool is_option = key.starts_with(std::string(kHookOptionTable) + ".");
  if (!row && !is_option) return false;
  const std::string origin = flag.empty() ? name + ": " + shown(node) : flag;
  const auto leave_out = [&](const std::string& why) {
    result.leave_out(node.IsMap() ? name : origin, "set " + key + ", which " + why);
  };
  std::string problem;
  if (row && row->option.type == OptionType::texts && !node.IsMap()) {
    std::vector<std::string> texts;
    if (node.IsScalar()) texts = {node.Scalar()};
    if (node.IsSequence() && !is_of_scalars(node)) {
      leave_out("must be " + allowed_text(row->option));
      return true;
    }
    for (const YAML::Node& each : node) texts.push_back(each.Scalar());
    if (!check_value(row->option, texts, problem))
      leave_out(problem);
    else
      result.carry(key, to_text(texts), origin);
  } else if (!node.IsScalar()) {
    leave_out("must be " + (row ? allowed_text(row->option) : std::string("a single value")));
  } else if (!row) {
    result.carry(key, value_of(node), origin);
  } else if (const std::string value = scalar_value(*row, node);
             !row->option.allowed.empty() && !check_value(row->option, value, problem)) {
    leave_out(problem);
  } else {
    result.carry(key, value, origin);
  }
  return true;
}

}  // namespace hookline
