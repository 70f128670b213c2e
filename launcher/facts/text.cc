#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/text/bytes_text.h"
#include "base/text/printable.h"
#include "launcher/facts/facts.h"

namespace hookline {
namespace {

/// The value as text, whose further lines begin with `indent`.
std::string plain(const Facts& value, const std::string& indent) {
  std::string text;
  for (const char c : printable_lines(value.is_string() ? value.get<std::string>() : value.dump()))
    text += c == '\n' ? "\n" + indent : std::string(1, c);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.pop_back();
  return text;
}

constexpr std::string_view kBytes = "_bytes";

/// "memory_bytes" becomes "memory". Names of variables and of config keys are kept.
std::string label(std::string name) {
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return std::isupper(c) || c == '.'; }))
    return name;
  if (name.ends_with(kBytes)) name.resize(name.size() - kBytes.size());
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

bool is_list_of_texts(const Facts& value) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const Facts& each) { return each.is_string(); });
}

void add(const Facts& facts, const std::string& indent, std::string& text) {
  for (const auto& [name, value] : facts.items()) {
    const std::string start = indent + (facts.is_array() ? "-" : printable(label(name)) + ":");
    if (name.ends_with(kBytes) && value.is_number()) {
      text += start + " " + binary_bytes_text(value.get<double>()) + "\n";
    } else if (is_list_of_texts(value) && !value.empty()) {
      std::string line;
      for (const Facts& each : value)
        line += (line.empty() ? " " : ", ") + printable(each.get<std::string>());
      text += start + line + "\n";
    } else if (value.is_boolean()) {
      text += start + (value.get<bool>() ? " yes\n" : " no\n");
    } else if (!value.is_structured()) {
      text += start + " " + plain(value, indent + "  ") + "\n";
    } else if (value.empty()) {
      text += start + " none\n";
    } else {
      text += start + "\n";
      add(value, indent + "  ", text);
    }
  }
}

}  // namespace

std::string text_of(const Facts& facts) {
  std::string text;
  add(facts, "", text);
  return text;
}

std::string line_of(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace hookline
