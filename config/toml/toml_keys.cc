#include "config/toml/toml_keys.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace hookline {
namespace {

/// The position after the closing quote of the string that starts at `at`. A one-line string ends with its
/// line at the latest; without `lines`, so does a multi-line string.
std::size_t end_of_string(std::string_view text, std::size_t at, bool lines) {
  const char quote = text[at];
  const std::string_view opening = text.substr(at, 3);
  const bool triple = lines && opening == std::string(3, quote);
  std::size_t i = at + (triple ? 3 : 1);
  while (i < text.size()) {
    if (text[i] == '\\' && quote == '"') {
      i += 2;
    } else if (text[i] == '\n' && !triple) {
      return i;
    } else if (triple && text.substr(i, 3) == opening) {
      i += 3;
      // Up to two quotes more belong to the string: """say "hi"""".
      while (i < text.size() && text[i] == quote) ++i;
      return i;
    } else if (!triple && text[i] == quote) {
      return i + 1;
    } else {
      ++i;
    }
  }
  return text.size();
}

bool is_bare(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; }

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  ScannedKeys run() {
    KeyPath table;
    while (skip_blank(), at_ < text_.size()) {
      const std::size_t before = at_;
      if (text_[at_] == '[') {
        if (!begins_line()) misplaced_.push_back(at_);
        table = header();
      } else {
        key_and_value(table);
      }
      if (at_ == before) ++at_;
    }
    return {std::move(places_), std::move(misplaced_)};
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_spaces() {
    while (peek() == ' ' || peek() == '\t') ++at_;
  }

  void skip_line() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  bool begins_line() const {
    const std::size_t start = at_ == 0 ? 0 : text_.rfind('\n', at_ - 1) + 1;  // npos + 1 is 0
    return text_.substr(start, at_ - start).find_first_not_of(" \t") == text_.npos;
  }

  /// Skips spaces, newlines and comments.
  void skip_blank() {
    while (at_ < text_.size()) {
      if (peek() == '#') {
        skip_line();
      } else if (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }

  KeyPath header() {
    while (peek() == '[') ++at_;
    const KeyPath path = dotted_key({});
    skip_line();
    return path;
  }

  /// Reads a.b."c" and notes each of its names below `table`.
  KeyPath dotted_key(KeyPath table) {
    for (;;) {
      skip_spaces();
      const std::size_t start = at_;
      if (peek() == '"' || peek() == '\'') {
        at_ = end_of_string(text_, at_, false);
        table.emplace_back(text_.substr(start + 1, at_ > start + 1 ? at_ - start - 2 : 0));
      } else {
        while (is_bare(peek())) ++at_;
        table.emplace_back(text_.substr(start, at_ - start));
      }
      if (recording_) places_.emplace(table, KeyPlace{{start, at_ - start}, {start, at_ - start}});
      skip_spaces();
      if (peek() != '.') return table;
      ++at_;
    }
  }

  void key_and_value(const KeyPath& table) {
    const KeyPath path = dotted_key(table);
    if (peek() != '=') {
      skip_line();
      return;
    }
    ++at_;
    skip_spaces();
    const std::size_t start = at_;
    value(path);
    if (recording_) places_[path].value = {start, at_ - start};
  }

  void value(const KeyPath& path) {
    switch (peek()) {
      case '"':
      case '\'':
        at_ = end_of_string(text_, at_, true);
        return;
      case '[': {
        const bool recorded = std::exchange(recording_, false);
        elements(']', [&] { value(path); });
        recording_ = recorded;
        return;
      }
      case '{':
        elements('}', [&] { key_and_value(path); });
        return;
      default:
        while (at_ < text_.size() && std::string_view(",[]}#\n").find(peek()) == std::string_view::npos)
          ++at_;
        while (at_ > 0 && std::isspace(static_cast<unsigned char>(text_[at_ - 1]))) --at_;
    }
  }

  template <typename Element>
  void elements(char closing, Element element) {
    ++at_;
    for (;;) {
      skip_blank();
      if (at_ >= text_.size()) return;
      if (peek() == closing) {
        ++at_;
        return;
      }
      const std::size_t before = at_;
      if (peek() != ',') element();
      if (at_ == before) ++at_;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool recording_ = true;
  std::map<KeyPath, KeyPlace> places_;
  std::vector<std::size_t> misplaced_;
};

enum class Strings { ignored, of_one_line, all };

std::optional<std::size_t> find_deep_nesting(std::string_view text, Strings strings) {
  std::size_t depth = 0, dots = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (strings != Strings::ignored) {
      if (c == '"' || c == '\'') {
        i = end_of_string(text, i, strings == Strings::all);
        continue;
      }
      if (c == '#') {
        i = std::min(text.find('\n', i), text.size());
        continue;
      }
      if (c == '\n') dots = 0;
      if (c == '.' && ++dots > kDeepestNesting) return i;
    }
    if ((c == '[' || c == '{') && ++depth > kDeepestNesting) return i;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    ++i;
  }
  return std::nullopt;
}

}  // namespace

ScannedKeys scan_keys(std::string_view text) { return Scanner(text).run(); }

std::map<KeyPath, KeyPlace> find_keys(std::string_view text) { return scan_keys(text).places; }

std::optional<std::size_t> find_deep_nesting(std::string_view text) {
  // After a broken string, it is unclear how the parser reads on: try every reading, and report the first
  // that nests too deep.
  for (const Strings strings : {Strings::all, Strings::of_one_line, Strings::ignored})
    if (const auto at = find_deep_nesting(text, strings)) return at;
  return std::nullopt;
}

}  // namespace hookline
