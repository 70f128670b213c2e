#include "launcher/sweep/file/command_line.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <set>

#include "base/error.h"

namespace hookline {
namespace {

/// The positions of the braces of a {NAME}.
struct Placeholder {
  std::size_t open, close;
  std::string name_in(const std::string& word) const { return word.substr(open + 1, close - open - 1); }
};

std::optional<Placeholder> next_placeholder(const std::string& word, std::size_t at) {
  for (std::size_t open = word.find('{', at); open != word.npos;) {
    const bool is_brace = word.compare(open, 2, "{{") == 0;
    const bool is_shells = open > at && word[open - 1] == '$';
    const std::size_t close = word.find('}', open);
    if (!is_brace && !is_shells && close != word.npos) {
      const Placeholder found{open, close};
      const std::string name = found.name_in(word);
      const bool is_name = std::all_of(
          name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
      if (is_name && !name.empty()) return found;
    }
    open = word.find('{', open + (is_brace ? 2 : 1));
  }
  return std::nullopt;
}

std::string without_doubled_braces(std::string text) {
  for (std::size_t at = text.find("{{"); at != text.npos; at = text.find("{{", at + 1)) text.erase(at, 1);
  return text;
}

}  // namespace

std::vector<std::string> placeholders_of(const std::string& word) {
  std::vector<std::string> names;
  for (auto found = next_placeholder(word, 0); found; found = next_placeholder(word, found->close + 1))
    names.push_back(found->name_in(word));
  return names;
}

std::vector<std::string> command_of(const std::vector<std::string>& program, const Assignments& values) {
  std::vector<std::string> command;
  std::set<std::string> used;
  for (const std::string& word : program) {
    std::string filled;
    std::size_t at = 0;
    for (auto found = next_placeholder(word, at); found; found = next_placeholder(word, at)) {
      const std::string name = found->name_in(word);
      const auto value = values.find(std::string(kArgumentPrefix) + name);
      if (value == values.end())
        throw Error("[sweep] program has {" + name + "}, and nothing gives args." + name + " a value");
      used.insert(name);
      filled += without_doubled_braces(word.substr(at, found->open - at)) + value->second;
      at = found->close + 1;
    }
    command.push_back(filled + without_doubled_braces(word.substr(at)));
  }
  for (const auto& [key, value] : values) {
    const std::string name = key.starts_with(kArgumentPrefix) ? key.substr(kArgumentPrefix.size()) : "";
    if (name.empty() || used.contains(name)) continue;
    command.push_back("--" + name);
    command.push_back(value);
  }
  return command;
}

}  // namespace hookline
