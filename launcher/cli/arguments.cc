#include "launcher/cli/arguments.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/folder_access.h"
#include "base/regular_file.h"
#include "base/suggest.h"
#include "config/schema/schema.h"

namespace hookline {
namespace {

// Flags that people know by another name, from torchrun, `accelerate launch` or another verb.
const std::map<std::string, std::string>& foreign_flags() {
  static const std::map<std::string, std::string> flags = {
      {"--nproc-per-node", "--processes-per-node"},
      {"--nproc_per_node", "--processes-per-node"},
      {"--num-processes", "--processes-per-node"},
      {"--num_processes", "--processes-per-node"},
      {"--config_file", "--config"},
      {"--config-file", "--config"},
      {"--dry-run", "--print"},
  };
  return flags;
}

/// `value`: the flag's value, or the next argument if that may be its value; empty if there is neither.
[[noreturn]] void unknown_flag(const std::string& name, const std::string& value,
                               const std::vector<Flag>& known) {
  std::vector<std::string> names;
  for (const Flag& flag : known) names.push_back(flag.name);
  const auto foreign = foreign_flags().find(name);
  const bool is_here = foreign != foreign_flags().end() &&
                       std::find(names.begin(), names.end(), foreign->second) != names.end();
  std::string key = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  std::replace(key.begin(), key.end(), '-', '_');
  if (std::count(names.begin(), names.end(), "--set")) {
    for (const KeyRow& row : schema())
      if (row.option.name == key)
        throw UsageError("unknown flag '" + name + "'; did you mean '--set " + row.key() + "=VALUE'?");
  }
  std::string advice = is_here ? "; did you mean '" + foreign->second + "'?" : suggestion(name, names);
  if (advice.empty() && std::count(names.begin(), names.end(), "--scheduler-arg"))
    advice = "; an option of sbatch goes as --scheduler-arg=" + name + (value.empty() ? "" : "=" + value);
  throw UsageError("unknown flag '" + name + "'" + advice);
}

}  // namespace

std::string text_of_file(const std::string& file, std::uint64_t most_bytes) {
  expect_access(file);
  InputFile input(file, most_bytes);
  std::string text = input.read_all();
  if (input.problem() != FileProblem::none) throw UsageError("'" + file + "' can't be read: " + input.why());
  return text;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const auto found = nearest(word, candidates);
  return found ? "; did you mean '" + *found + "'?" : "";
}

SplitArguments split_arguments(const std::vector<std::string>& arguments, const std::vector<Flag>& known,
                               PlainArguments plain_arguments) {
  const auto find = [&known](const std::string& name) {
    return std::find_if(known.begin(), known.end(), [&name](const Flag& flag) { return flag.name == name; });
  };
  SplitArguments split;
  std::set<std::string> seen;
  for (auto argument = arguments.begin(); argument != arguments.end(); ++argument) {
    const bool is_plain = argument->size() < 2 || argument->front() != '-';
    if (*argument == "--" || (is_plain && plain_arguments == PlainArguments::end_flags)) {
      split.plain.insert(split.plain.end(), argument + (is_plain ? 0 : 1), arguments.end());
      break;
    }
    if (is_plain) {
      split.plain.push_back(*argument);
      continue;
    }
    const std::size_t equals = argument->find('=');
    const std::string name = argument->substr(0, equals);
    const auto flag = find(name);
    if (flag == known.end()) {
      const bool is_next = equals == std::string::npos && argument + 1 != arguments.end();
      const std::string value = equals != std::string::npos                    ? argument->substr(equals + 1)
                                : is_next && !(argument + 1)->starts_with("-") ? *(argument + 1)
                                                                               : "";
      unknown_flag(name, value, known);
    }
    if (!seen.insert(name).second && !flag->may_repeat) throw UsageError(name + " is given twice");

    if (!flag->takes_value) {
      if (equals != std::string::npos) throw UsageError(name + " takes no value");
      split.flags.push_back(name);
      continue;
    }
    std::string value;
    if (equals != std::string::npos) {
      value = argument->substr(equals + 1);
    } else if (argument + 1 != arguments.end()) {
      value = *++argument;
      if (find(value.substr(0, value.find('='))) != known.end())
        throw UsageError(name + " needs a value, but the flag '" + value + "' follows it");
    }
    if (value.empty()) throw UsageError(name + " needs a value");
    split.flags.push_back(name + "=" + value);
  }
  return split;
}

Assignment split_assignment(const std::string& text, const std::string& flag, const std::string& example) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError(flag + " needs KEY=VALUE, not '" + text + "'; for example: " + flag + " " + example);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace hookline
