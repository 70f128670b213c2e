// The text of a config file, and places in it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/toml/diagnostic.h"

namespace hookline {

/// Bytes [offset, offset + length) of a text.
struct Span {
  std::size_t offset = 0;
  std::size_t length = 0;
};

/// What a diagnostic points at: characters of a line, or (line 0) a variable or flag as a whole.
struct Place {
  std::string source;
  int line = 0;
  int column = 0;
  int length = 1;
  std::string line_text = {};

  /// "run.toml:3:1", or the source alone.
  std::string text() const;
};

Diagnostic diagnostic_at(const Place& place, Severity severity, std::string message, std::string note = "",
                         ProblemKind kind = ProblemKind::other);

/// Valid UTF-8 without a byte-order mark or control characters; `name` is the file as the user named it.
class SourceText {
 public:
  SourceText(std::string name, std::string text);

  const std::string& name() const { return name_; }
  std::string_view text() const { return text_; }

  /// The bytes of line `line` (from 1), its newline excluded; empty for a line that does not exist.
  Span line_span(std::size_t line) const;
  /// The line (from 1) that holds byte `offset`.
  std::size_t line_of(std::size_t offset) const;
  std::optional<Span> first_line_longer_than(std::size_t bytes) const;
  Place place(Span span) const;
  std::string_view at(Span span) const;

 private:
  std::string name_;
  std::string text_;
  std::vector<std::size_t> line_starts_;
};

/// The first byte that is not valid UTF-8.
std::optional<std::size_t> first_invalid_byte(std::string_view text);

/// Reads `file`: a regular, non-blank file of at most 256 KiB of UTF-8, without control characters, in lines
/// of at most 4,096 bytes. Anything else is an error, since it can make parsers crash or stall.
std::variant<SourceText, Diagnostic> read_source(const std::filesystem::path& file);

/// The same checks of a text that is not in its file yet.
std::variant<SourceText, Diagnostic> source_of(const std::string& name, std::string text);

}  // namespace hookline
