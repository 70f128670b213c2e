#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/facts/facts.h"

namespace hookline {
namespace {

/// Further lines of a value begin at `indent`.
std::string plain(const Facts& value, const std::string& indent) {
  std::string text;
  for (const char c : value.is_string() ? value.get<std::string>() : value.dump())
    text += c == '\n' ? "\n" + indent : std::string(1, c);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.pop_back();
  return text;
}

void add(const Facts& facts, const std::string& indent, std::string& text) {
  for (const auto& [name, value] : facts.items()) {
    const std::string start = indent + (facts.is_array() ? "-" : name + ":");
    if (!value.is_structured()) {
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

std::string gibibytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", bytes / (1 << 30));
  return text;
}

}  // namespace hookline
