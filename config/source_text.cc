#include "config/source_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

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

/// Length of the UTF-8 sequence at the start of `text`, 0 if there is none.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xED && byte(1) > 0x9F;
  const bool too_large = lead == 0xF4 && byte(1) > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

/// The first that TOML knows nowhere, not even in a comment: all but tabs, newlines, and a return before one.
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
    const std::size_t length = sequence_length(std::string_view(text).substr(at));
    if (length == 0) text[at] = '?';
    at += std::max<std::size_t>(length, 1);
  }
  return text;
}

Diagnostic file_error(const std::string& name, std::string message, std::string note) {
  return diagnostic_at(Place{name, 0, 0, 1, ""}, Severity::error, std::move(message), std::move(note));
}

std::string size_text(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1024 * 1024));
  return bytes < 1024 * 1024 ? std::to_string(bytes / 1024) + " KiB" : text;
}

/// Reads at most one byte more than a config may have.
std::optional<std::string> read_up_to_limit(int fd) {
  std::string text(kLargestBytes + 1, '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = read(fd, text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  text.resize(filled);
  return text;
}

std::variant<std::string, Diagnostic> read_bytes(const std::string& name) {
  // O_NONBLOCK: opening a pipe that nobody writes to must not hang.
  const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ENOENT) return file_error(name, "there is no such file", "check the path");
    return file_error(name, std::string("cannot be read: ") + std::strerror(errno), "");
  }
  const auto result = [&]() -> std::variant<std::string, Diagnostic> {
    struct stat info {};
    if (fstat(fd, &info) != 0)
      return file_error(name, std::string("cannot be read: ") + std::strerror(errno), "");
    if (S_ISDIR(info.st_mode)) return file_error(name, "is a directory", "name a TOML file in it");
    if (!S_ISREG(info.st_mode)) return file_error(name, "is not a regular file", "a config is a TOML file");
    auto text = read_up_to_limit(fd);
    if (!text) return file_error(name, std::string("cannot be read: ") + std::strerror(errno), "");
    if (text->size() <= kLargestBytes) return *std::move(text);
    const auto bytes = std::max<std::uint64_t>(static_cast<std::uint64_t>(info.st_size), text->size());
    return file_error(name, "is too large for a config: " + size_text(bytes),
                      "a config has at most " + size_text(kLargestBytes));
  }();
  close(fd);
  return result;
}

}  // namespace

std::optional<std::size_t> first_invalid_byte(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::string Place::text() const {
  return line == 0 ? source : source + ":" + std::to_string(line) + ":" + std::to_string(column);
}

Diagnostic diagnostic_at(const Place& place, Severity severity, std::string message, std::string note) {
  return {severity,     place.source,    place.line,         place.column,
          place.length, place.line_text, std::move(message), std::move(note)};
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
                         std::string("remove it, or write it as ") + character + " in a text");
  }
  if (const auto line = source.first_line_longer_than(kLongestLineBytes))
    return diagnostic_at(source.place({line->offset + kLongestLineBytes, 1}), Severity::error,
                         "the line is too long",
                         "a line has at most " + std::to_string(kLongestLineBytes) + " bytes");
  return source;
}

}  // namespace hookline
