#include "config/toml/diagnostic.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "base/text/printable.h"

namespace hookline {
namespace {

constexpr std::size_t kWidestLine = 160;
constexpr std::size_t kCharactersBeforeTheCaret = 60;

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

std::size_t character_count(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

/// `count` characters from character `first` on.
std::string characters(const std::string& text, std::size_t first, std::size_t count) {
  std::string out;
  std::size_t index = 0;
  for (const char c : text) {
    if (starts_character(c)) ++index;
    if (index > first && index <= first + count) out += c;
  }
  return out;
}

/// The line as it is shown: characters that could control the terminal become "?", so that each character
/// keeps its column.
std::string shown_line(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(1, utf8_sequence_length(text));
    const std::string_view character = text.substr(0, length);
    result += character == "\t" || printable(character) == character ? character : "?";
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace

std::string render(const Diagnostic& diagnostic) {
  const std::string kind = diagnostic.severity == Severity::error ? "error: " : "warning: ";
  std::string text = printable(diagnostic.source);
  if (diagnostic.line > 0)
    text.append(":")
        .append(std::to_string(diagnostic.line))
        .append(":")
        .append(std::to_string(diagnostic.column));
  if (!text.empty()) text += ": ";
  text += kind + printable(diagnostic.message) + "\n";
  const std::string note = printable_lines(diagnostic.note);
  if (diagnostic.line == 0) return note.empty() ? text : text + "  " + note + "\n";

  std::string line = shown_line(diagnostic.line_text);
  std::size_t before = static_cast<std::size_t>(std::max(diagnostic.column - 1, 0));
  if (character_count(line) > kWidestLine) {
    const std::size_t first = before > kCharactersBeforeTheCaret ? before - kCharactersBeforeTheCaret : 0;
    const bool cut = first + kWidestLine < character_count(line);
    std::string window = first > 0 ? "…" : "";
    window += characters(line, first, kWidestLine);
    if (cut) window += "…";
    line = std::move(window);
    before -= first;
    if (first > 0) ++before;
  }
  const std::size_t total = character_count(line);
  before = std::min(before, total);
  const auto wanted = static_cast<std::size_t>(std::max(diagnostic.length, 1));
  const std::size_t underlined = std::max<std::size_t>(1, std::min(wanted, total - before));

  // Tabs stay tabs, so that the caret stands below its character however wide they are.
  std::string padding;
  for (const char c : characters(line, 0, before))
    if (starts_character(c)) padding += c == '\t' ? '\t' : ' ';
  const std::string number = std::to_string(diagnostic.line);
  text += "  " + number + " | " + line + "\n";
  text += "  " + std::string(number.size(), ' ') + " | " + padding + "^" + std::string(underlined - 1, '~');
  return text + (note.empty() ? "" : " " + note) + "\n";
}

}  // namespace hookline
