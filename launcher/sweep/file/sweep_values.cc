#include "launcher/sweep/file/sweep_values.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/suggest.h"
#include "config/schema/schema.h"

namespace hookline {
namespace {

/// The value as one types it on a command line.
std::string as_typed(const OptionValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? *text : to_text(value);
}

/// A list as one types it on a command line.
std::string with_commas(const std::vector<std::string>& texts) {
  std::string text;
  for (const std::string& each : texts) text += (text.empty() ? "" : ",") + each;
  return text;
}

bool is_list(const TomlNode& node) {
  return node.kind == TomlNode::Kind::array || std::holds_alternative<std::vector<std::string>>(node.value);
}

}  // namespace

SweepValues::SweepValues(const Catalog& catalog, TellProblem tell)
    : keys_(all_keys(catalog)), tell_(std::move(tell)) {}

void SweepValues::add_keys_below(const TomlNode& table, const std::string& prefix,
                                 std::vector<std::pair<std::string, const TomlNode*>>& found) const {
  for (const auto& [name, child] : table.children) {
    const std::string key = prefix.empty() ? name : prefix + "." + name;
    const bool is_argument = prefix == kArgumentTable;
    if (is_argument && name.empty()) {
      tell_(child.key, "an argument without a name", "write args.NAME: the program gets --NAME VALUE");
      continue;
    }
    const bool is_option = prefix == kHookOptionTable;  // of any hook: a plug-in's options are not known yet
    const bool is_known =
        is_argument || is_option || std::find(keys_.begin(), keys_.end(), key) != keys_.end();
    const bool is_table = key == kArgumentTable || key == kHookOptionTable || !key_names(key).empty();
    if (is_known) {
      found.emplace_back(key, &child);
    } else if (is_table && child.kind == TomlNode::Kind::table) {
      add_keys_below(child, key, found);
    } else {
      const auto near = nearest(key, keys_);
      tell_(child.key, "unknown key '" + key + "'",
            near ? "did you mean '" + *near + "'?"
                 : "write a key of the config, such as ddp.comm_hook, or an argument of the program, such "
                   "as args.lr");
    }
  }
}

std::vector<std::pair<std::string, const TomlNode*>> SweepValues::keys_below(const TomlNode& table) const {
  std::vector<std::pair<std::string, const TomlNode*>> found;
  add_keys_below(table, "", found);
  return found;
}

Assignments SweepValues::assignments(const TomlNode& table, std::vector<GivenKey>& given) const {
  Assignments result;
  for (const auto& [key, node] : keys_below(table)) {
    given.emplace_back(key, node->key);
    const KeyRow* const row = find_key(key);
    const auto* texts = std::get_if<std::vector<std::string>>(&node->value);
    if (row && row->option.type == OptionType::texts && texts) {
      result[key] = with_commas(*texts);
      continue;
    }
    if (node->kind == TomlNode::Kind::date)
      refuse_date(key, *node);
    else if (node->kind != TomlNode::Kind::scalar || is_list(*node))
      tell_(node->place, "'" + key + "' takes one value here", "arrays and ranges belong in [grid]");
    else
      result[key] = as_typed(node->value);
  }
  return result;
}

void SweepValues::refuse_date(const std::string& key, const TomlNode& node) const {
  tell_(node.place, "'" + key + "' can't be a date", "write it as a string, in quotes");
}

std::vector<std::string> SweepValues::values_of_list(const std::string& key, const TomlNode& node) const {
  std::vector<std::string> values;
  const KeyRow* const row = find_key(key);
  const bool takes_lists = row && row->option.type == OptionType::texts;
  for (const TomlNode& each : node.elements) {
    const auto* texts = std::get_if<std::vector<std::string>>(&each.value);
    if (takes_lists && texts) {
      values.push_back(with_commas(*texts));
      continue;
    }
    if (each.kind == TomlNode::Kind::date) {
      refuse_date(key, each);
      return {};
    }
    if (takes_lists || texts || each.kind != TomlNode::Kind::scalar) {
      tell_(each.place,
            "a value of '" + key + "' is " +
                (takes_lists ? "an array of strings" : "a number, a string, true or false"),
            takes_lists ? "write an array of such arrays: [[\"a\"], [\"a\", \"b\"]]" : "");
      return {};
    }
    values.push_back(as_typed(each.value));
  }
  if (values.empty()) tell_(node.place, "'" + key + "' has no values", "name at least one");
  return values;
}

Dimension SweepValues::dimension(const std::string& key, const TomlNode& node) const {
  if (is_list(node)) return {key, values_of_list(key, node)};
  if (node.kind == TomlNode::Kind::table) return {key, values_of_range(key, node, tell_)};
  if (node.kind == TomlNode::Kind::scalar) return {key, {as_typed(node.value)}};
  refuse_date(key, node);
  return {key, {}};
}

std::vector<Dimension> SweepValues::dimensions(const TomlNode& table, std::vector<GivenKey>& given) const {
  std::vector<Dimension> result;
  for (const auto& [key, node] : keys_below(table)) {
    given.emplace_back(key, node->key);
    result.push_back(dimension(key, *node));
  }
  return result;
}

Draw SweepValues::draw(const std::string& key, const TomlNode& node) const {
  Draw draw;
  draw.key = key;
  if (node.kind != TomlNode::Kind::table) {
    draw.choices = dimension(key, node).values;
  } else if (const auto range = read_range(key, node, /*to_draw=*/true, tell_)) {
    draw.from = range->from;
    draw.to = range->to;
    draw.log = range->log;
    draw.whole = range->whole;
  }
  return draw;
}

}  // namespace hookline
