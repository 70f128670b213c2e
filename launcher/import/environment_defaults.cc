// Defaults that a script has for environment variables: an import uses them, a run of the script may use
// others.
#include <algorithm>

#include "launcher/import/launch_line.h"

namespace hookline {
namespace {

/// Where the default of one variable was used.
struct Use {
  ShellDefault first;
  std::vector<std::string> keys;
  bool in_command = false;  // not only in keys
};

/// Does `where`, such as "--num_processes=8 on 2 machines", name this flag?
bool is_from(const std::string& where, const LaunchFlag& flag) {
  if (where.starts_with("--" + flag.name + " ")) return true;  // --rdzv-conf timeout=60
  const std::size_t begin = where.find(flag.from), end = begin + flag.from.size();
  return begin != where.npos && (end == where.size() || where[end] == ' ' || where[end] == ',');
}

bool is_left_out(const std::string& from, const Imported& result) {
  return std::any_of(result.left_out.begin(), result.left_out.end(),
                     [&](const auto& each) { return each.first == from; });
}

std::vector<std::string> keys_of(const LaunchFlag& flag, const Imported& result) {
  std::vector<std::string> keys;
  for (const Override& each : result.values)
    if (is_from(each.where, flag)) keys.push_back(each.key);
  return keys;
}

}  // namespace

void tell_of_defaults(const LaunchLine& line, const LaunchArguments& arguments,
                      const std::function<std::string(const std::string&)>& key_of, Imported& result) {
  std::map<std::string, Use> uses;
  const auto use_of = [&](const std::string& name, const ShellDefault& taken) -> Use& {
    return uses.emplace(name, Use{taken, {}, false}).first->second;
  };
  const auto add_to_command = [&](const ShellDefaults& defaults) {
    for (const auto& [name, taken] : defaults) use_of(name, taken).in_command = true;
  };
  const auto add_to_keys = [&](const ShellDefaults& defaults, const std::vector<std::string>& keys) {
    for (const auto& [name, taken] : defaults)
      for (const std::string& key : keys) {
        std::vector<std::string>& known = use_of(name, taken).keys;
        if (std::find(known.begin(), known.end(), key) == known.end()) known.push_back(key);
      }
  };
  for (const LaunchFlag& flag : arguments.flags) {
    if (flag.is_open || flag.defaults.empty()) continue;
    if (flag.name == "num_machines") {  // changes what other flags of Accelerate mean
      add_to_command(flag.defaults);
      continue;
    }
    std::vector<std::string> keys = keys_of(flag, result);
    if (const std::string key = key_of(flag.name); keys.empty() && !key.empty()) keys = {key};
    add_to_keys(flag.defaults, keys);
    if (keys.empty() && !is_left_out(flag.from, result)) add_to_command(flag.defaults);
  }
  std::map<std::string, ShellWord> variables;  // the command's own override exported ones
  for (const auto& [name, value] : line.environment) variables[name] = value;
  for (const auto& [name, value] : variables)
    add_to_keys(value.defaults, keys_of({name, value.text, name + "=" + value.as_written}, result));
  for (const auto& [name, unused] : result.environment)
    if (const auto set = variables.find(name); set != variables.end()) add_to_command(set->second.defaults);
  for (const auto* words : {&line.before, &arguments.program})
    for (const ShellWord& word : *words) add_to_command(word.defaults);
  add_to_command(line.empty_defaults);

  std::vector<std::pair<std::string, Use>> in_order(uses.begin(), uses.end());
  std::stable_sort(in_order.begin(), in_order.end(),
                   [](const auto& a, const auto& b) { return a.second.first.line < b.second.first.line; });
  for (const auto& [name, use] : in_order) {
    const std::string& text = use.first.text;
    std::string advice = "write its value into the script, and import it again";
    if (!use.in_command) {
      advice = "launch with";
      for (const std::string& key : use.keys) advice += " " + set_flag_for(key);
    }
    result.remarks.push_back("line " + std::to_string(use.first.line) + ": " + use.first.as_written +
                             " became its default, " + (text.empty() ? "an empty string" : "'" + text + "'") +
                             ": if the environment sets " + name + ", " + advice);
  }
}

}  // namespace hookline
