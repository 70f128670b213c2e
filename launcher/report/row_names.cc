#include "launcher/report/row_names.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

#include "base/text/printable.h"
#include "config/schema/schema.h"
#include "hooks/catalog/catalog.h"

namespace hookline {
namespace {

using NamedRows = std::map<Assignments, std::string>;

constexpr const char* kHookOfRow = "ddp.comm_hook";
constexpr const char* kWrapperOfRow = "ddp.comm_wrapper";
constexpr const char* kNothing = "no";  // as a hook and as a wrapper
constexpr const char* kSeparator = " · ";
constexpr std::size_t kMostOfAValue = 24, kKeptOfItsStart = 11, kKeptOfItsEnd = 12;

/// How detailed the names are.
struct NameDetail {
  std::set<std::string> keys;    // whose values are shown
  bool says_no_wrapper = false;  // even beside other parts
  bool is_uncut = false;         // long values are not shortened
};

bool is_hook_option(const std::string& key) { return key.starts_with(std::string(kHookOptionTable) + "."); }

std::string last_part(const std::string& text, char separator) {
  return text.substr(text.rfind(separator) + 1);
}

bool is_whole_number(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// The position `at` in UTF-8 text, or the end of the character that it is inside of.
std::size_t character_end(const std::string& text, std::size_t at) {
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
  return at;
}

std::string short_value(const std::string& value, const NameDetail& detail) {
  const std::string text = printable(value);
  if (detail.is_uncut || text.size() <= kMostOfAValue) return text;
  return text.substr(0, character_end(text, kKeptOfItsStart)) + "…" +
         text.substr(character_end(text, text.size() - kKeptOfItsEnd));
}

bool is_no_hook(const std::string& value) {
  static const Catalog catalog = Catalog::built_in();
  const HookRow* hook = catalog.find_hook(value);
  return hook && hook->name == kNothing;
}

std::map<std::string, std::set<std::string>> values_by_key(const std::set<Assignments>& rows) {
  std::map<std::string, std::set<std::string>> values;
  for (const Assignments& row : rows)
    for (const auto& [key, value] : row) values[key].insert(value);
  return values;
}

/// The text before a key's values: "lr=", or, for options of hooks that are whole numbers, an initial such as
/// "r" for matrix_approximation_rank.
std::map<std::string, std::string> prefixes_of(const std::set<Assignments>& rows,
                                               const std::set<std::string>& keys) {
  const auto initial_of = [](const std::string& key) {
    return last_part(last_part(key, '.'), '_').substr(0, 1);
  };
  std::map<std::string, std::size_t> names, initials;
  for (const std::string& key : keys) {
    ++names[last_part(key, '.')];
    if (is_hook_option(key)) ++initials[initial_of(key)];
  }
  const auto values = values_by_key(rows);
  std::map<std::string, std::string> prefixes;
  for (const std::string& key : keys) {
    const std::string name = last_part(key, '.');
    const bool counts = std::all_of(values.at(key).begin(), values.at(key).end(), is_whole_number);
    if (is_hook_option(key) && counts && initials[initial_of(key)] == 1)
      prefixes[key] = initial_of(key);
    else
      prefixes[key] = (names[name] == 1 ? name : key) + "=";
  }
  return prefixes;
}

std::string row_name(const Assignments& row, const std::map<std::string, std::string>& prefixes,
                     const NameDetail& detail) {
  std::string hook, options, wrapper, settings, arguments;
  bool has_no_wrapper = false;
  for (const auto& [key, value] : row) {
    if (!detail.keys.contains(key)) continue;
    const std::string text = short_value(value, detail);
    if (key == kHookOfRow) {
      hook = is_no_hook(value) ? "no hook" : text;
    } else if (key == kWrapperOfRow) {
      has_no_wrapper = value == kNothing;
      wrapper = has_no_wrapper ? "no wrapper" : text;
    } else {
      std::string& words = is_hook_option(key)                ? options
                           : key.starts_with(kArgumentPrefix) ? arguments
                                                              : settings;
      words += (words.empty() ? "" : " ") + prefixes.at(key) + text;
    }
  }
  if (!hook.empty() && !options.empty()) hook += " ";
  hook += options;
  const bool is_only_wrapper = hook.empty() && settings.empty() && arguments.empty();
  if (has_no_wrapper && !detail.says_no_wrapper && !is_only_wrapper) wrapper.clear();
  std::string name;
  for (const std::string& part : {hook, wrapper, settings, arguments})
    if (!part.empty()) name += std::string(name.empty() ? "" : kSeparator) + part;
  return name.empty() ? "as configured" : name;
}

NamedRows name_rows(const std::set<Assignments>& rows, const NameDetail& detail) {
  const auto prefixes = prefixes_of(rows, detail.keys);
  NamedRows names;
  for (const Assignments& row : rows) names.emplace(row, row_name(row, prefixes, detail));
  return names;
}

std::size_t different_names(const NamedRows& rows) {
  std::set<std::string> names;
  for (const auto& [row, name] : rows) names.insert(name);
  return names.size();
}

/// "lr=1", "lr=1 #2": numbers names that are still equal.
void number_equal_names(NamedRows& rows) {
  std::set<std::string> names;
  for (auto& [row, name] : rows) {
    const std::string plain = name;
    for (std::size_t number = 2; !names.insert(name).second; ++number)
      name = plain + " #" + std::to_string(number);
  }
}

}  // namespace

NamedRows row_names(const std::set<Assignments>& rows) {
  NameDetail detail;
  std::set<std::string> others;
  for (const auto& [key, values] : values_by_key(rows))
    (values.size() > 1 || rows.size() == 1 ? detail.keys : others).insert(key);
  NamedRows names = name_rows(rows, detail);
  const auto say_more = [&](const NameDetail& more) {
    if (different_names(names) == rows.size()) return;
    NamedRows longer = name_rows(rows, more);
    if (different_names(longer) <= different_names(names)) return;
    detail = more;
    names = std::move(longer);
  };
  for (const std::string& key : others) {
    NameDetail more = detail;
    more.keys.insert(key);
    say_more(more);
  }
  NameDetail more = detail;
  if (others.contains(kWrapperOfRow)) more.keys.insert(kWrapperOfRow);
  more.says_no_wrapper = true;
  say_more(more);
  more = detail;
  more.is_uncut = true;
  say_more(more);
  number_equal_names(names);
  return names;
}

}  // namespace hookline
