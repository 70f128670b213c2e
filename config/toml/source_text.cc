#include "config/toml/source_text.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "base/folder_access.h"
#include "base/regular_file.h"
#include "base/text/bytes_text.h"
#include "base/text/printable.h"

namespace hookline {
namespace {

constexpr std::size_t kLargestBytes = 256 * 1024;
/// The parser's time grows with the square of a line's length.
constexpr std::size_t kLongestLineBytes = 4096;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::size_t characters_in(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// The first control character that TOML forbids everywhere, even in comments: any but a tab, a newline, and
/// a carriage return before a newline.
std::optional<std::size_t> first_control_character(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x20 ? byte != 0x7F : byte == '\t' || byte == '\n') continue;
    if (byte == '\r' && at + 1 < text.size() && text[at + 1] == '\n') continue;
    return at;
  }
  return std::nullopt;
}

std::string replace_invalid_bytes(std::string text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence_length(std::string_view(text).substr(at));
    if (length == 0) text[at] = '?';
    at += std::max<std::size_t>(length, 1);
  }
  return text;
}

Diagnostic file_error(const std::string& name, std::string message, std::string note) {
  return diagnostic_at(Place{name}, Severity::error, std::move(message), std::move(note));
}

std::variant<std::string, Diagnostic> read_bytes(const std::string& name) {
  InputFile file(name, kLargestBytes);
  std::string text = file.read_all();
  switch (file.problem()) {
    case FileProblem::none:
      return text;
    case FileProblem::missing:
      if (std::error_code none; std::filesystem::is_symlink(name, none))
        return file_error(name, "is a link to a file that is not there", "see where it leads: ls -l");
      return file_error(name, "there is no such file", "check the path");
    case FileProblem::directory:
      return file_error(name, "is a directory", "name a TOML file in it");
    case FileProblem::not_regular:
      return file_error(name, "is not a regular file", "a config is a TOML file");
    case FileProblem::too_large:
      return file_error(
          name,
          "is too large for a config: " +
              bytes_beyond_text(std::max<std::uint64_t>(file.bytes(), text.size()), kLargestBytes),
          "a config has at most " + binary_bytes_text(kLargestBytes));
    case FileProblem::refused:
      break;
  }
  if (const auto access = find_access_problem(name)) return file_error(name, access->what, access->advice);
  return file_error(name, "cannot be read: " + file.why(), "");
}

}  // namespace

std::optional<std::size_t> first_invalid_byte(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::string Place::text() const {
  return line == 0 ? source : source + ":" + std::to_string(line) + ":" + std::to_string(column);
}

Diagnostic diagnostic_at(const Place& place, Severity severity, std::string message, std::string note,
                         ProblemKind kind) {
  return {severity,        place.source,       place.line,      place.column, place.length,
          place.line_text, std::move(message), std::move(note), kind};
}

SourceText::SourceText(std::string name, std::string text)
    : name_(std::move(name)), text_(std::move(text)), line_starts_{0} {
  for (std::size_t i = 0; i < text_.size(); ++i)
    if (text_[i] == '\n') line_starts_.push_back(i + 1);
}

Span SourceText::line_span(std::size_t line) const {
  if (line == 0 || line > line_starts_.size()) return {text_.size(), 0};
  const std::size_t start = line_starts_[line - 1];
  std::size_t end = line < line_starts_.size() ? line_starts_[line] - 1 : text_.size();
  if (end > start && text_[end - 1] == '\r') --end;
  return {start, end - start};
}

std::size_t SourceText::line_of(std::size_t offset) const {
  const auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  return static_cast<std::size_t>(after - line_starts_.begin());
}

std::optional<Span> SourceText::first_line_longer_than(std::size_t bytes) const {
  for (std::size_t line = 1; line <= line_starts_.size(); ++line)
    if (line_span(line).length > bytes) return line_span(line);
  return std::nullopt;
}

Place SourceText::place(Span span) const {
  const std::size_t line = line_of(span.offset);
  const Span whole = line_span(line);
  const std::size_t start = std::min(span.offset, whole.offset + whole.length);
  const std::size_t length = std::min(span.length, whole.offset + whole.length - start);
  const std::size_t before = characters_in(at({whole.offset, start - whole.offset}));
  return {name_, static_cast<int>(line), static_cast<int>(before + 1),
          std::max(1, static_cast<int>(characters_in(at({start, length})))), std::string(at(whole))};
}

std::string_view SourceText::at(Span span) const {
  if (span.offset > text_.size()) return {};
  return text().substr(span.offset, span.length);
}

std::variant<SourceText, Diagnostic> read_source(const std::filesystem::path& file) {
  const std::string name = file.string();
  if (name.empty()) return file_error(name, "the name of the config is empty", "name a TOML file");
  auto bytes = read_bytes(name);
  if (auto* problem = std::get_if<Diagnostic>(&bytes)) return std::move(*problem);
  return source_of(name, std::get<std::string>(std::move(bytes)));
}

std::variant<SourceText, Diagnostic> source_of(const std::string& name, std::string text) {
  if (text.compare(0, kByteOrderMark.size(), kByteOrderMark) == 0) text.erase(0, kByteOrderMark.size());
  if (const std::size_t zero = text.find('\0'); zero != text.npos)
    return file_error(name, "is a binary file: its byte " + std::to_string(zero + 1) + " is zero",
                      "a config is a TOML file");
  if (text.find_first_not_of(" \t\r\n") == text.npos)
    return file_error(name, "the file is empty",
                      "write a table and a key, such as [ddp] and comm_hook = \"fp16\"");
  if (const auto invalid = first_invalid_byte(text)) {
    const std::size_t before = *invalid;
    const SourceText source(name, replace_invalid_bytes(std::move(text)));
    return diagnostic_at(source.place({before, 1}), Severity::error, "not valid UTF-8",
                         "save the file as UTF-8");
  }
  SourceText source(name, std::move(text));
  if (const auto control = first_control_character(source.text())) {
    char character[8];
    std::snprintf(character, sizeof character, "\\u%04X",
                  static_cast<unsigned char>(source.text()[*control]));
    return diagnostic_at(source.place({*control, 1}), Severity::error,
                         std::string("a control character, ") + character,
                         std::string("remove it, or write it as ") + character + " in a string");
  }
  if (const auto line = source.first_line_longer_than(kLongestLineBytes))
    return diagnostic_at(source.place({line->offset + kLongestLineBytes, 1}), Severity::error,
                         "the line is too long",
                         "a line has at most " + binary_bytes_text(kLongestLineBytes));
  return source;
}

}  // namespace hookline
