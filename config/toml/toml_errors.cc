#include "config/toml/toml_errors.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/lines.h"

namespace hookline {
namespace {

constexpr std::size_t kLongestWord = 100;

/// toml11 names the function first: "toml::parse_value: unknown value appeared".
std::string without_function_name(const std::string& title) {
  const std::size_t end = title.compare(0, 6, "toml::") == 0 ? title.find(':', 6) : title.npos;
  if (end == title.npos) return title;
  const std::size_t text = title.find_first_not_of(": ", end);
  return text == title.npos ? title : title.substr(text);
}

/// The value on a line `key = value  # comment`.
std::optional<Span> value_on(const SourceText& source, Span line) {
  const std::string_view text = source.at(line);
  const std::size_t equals = text.find('=');
  if (equals == text.npos) return std::nullopt;
  std::string_view value = text.substr(equals + 1);
  value = trimmed(value.substr(0, value.find('#')));
  if (value.empty()) return std::nullopt;
  return Span{line.offset + static_cast<std::size_t>(value.data() - text.data()), value.size()};
}

/// A diagnostic for `key = word`, where a string has no quotes.
std::optional<Diagnostic> missing_quotes(const SourceText& source, Span line) {
  const auto value = value_on(source, line);
  if (!value || value->length > kLongestWord) return std::nullopt;
  const std::string word(source.at(*value));
  const auto is_of_word = [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_-.:/").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!std::isalpha(static_cast<unsigned char>(word[0])) ||
      !std::all_of(word.begin(), word.end(), is_of_word))
    return std::nullopt;
  std::string lower = word;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool is_flag = lower == "true" || lower == "false";
  return diagnostic_at(source.place(*value), Severity::error, "'" + word + "' is not a TOML value",
                       is_flag ? "write " + lower : "a string needs quotes: \"" + word + "\"");
}

/// In any of TOML's four notations.
bool is_integer(std::string_view value) {
  return value.find_first_not_of("+-_0123456789abcdefABCDEFxo") == value.npos;
}

bool contains(const std::string& text, const char* part) { return text.find(part) != text.npos; }

Diagnostic given_twice(const SourceText& source, Span line, Span key, std::size_t first_line) {
  const std::string where = "the first is in line " + std::to_string(first_line);
  std::string_view name = trimmed(source.at(key));
  if (!is_header(source, line))
    return diagnostic_at(source.place(key), Severity::error, "key '" + std::string(name) + "' is given twice",
                         where + ": keep one of them", ProblemKind::given_twice);
  while (!name.empty() && name.front() == '[') name.remove_prefix(1);
  while (!name.empty() && name.back() == ']') name.remove_suffix(1);
  const Span inside{key.offset + static_cast<std::size_t>(name.data() - source.at(key).data()), name.size()};
  return diagnostic_at(source.place(inside), Severity::error,
                       "table [" + std::string(trimmed(name)) + "] is given twice",
                       where + ": put the keys of both there", ProblemKind::given_twice);
}

}  // namespace

bool is_header(const SourceText& source, Span line) { return trimmed(source.at(line)).starts_with("["); }

Diagnostic diagnostic_of(const ParserError& error, const SourceText& source) {
  const std::string title = without_function_name(error.title);
  if (!error.place) return diagnostic_at(Place{source.name()}, Severity::error, "not valid TOML: " + title);
  const Span span = *error.place, line = source.line_span(source.line_of(span.offset));
  if (error.first_line && (contains(title, "already") || contains(title, "conflict") ||
                           contains(title, "reopen") || contains(title, "immutable")))
    return given_twice(source, line, span, *error.first_line);
  if (const auto value = value_on(source, line);
      value && contains(title, "too large") && is_integer(source.at(*value)))
    return diagnostic_at(source.place(*value), Severity::error,
                         "the number " + std::string(source.at(*value)) + " is too large",
                         "an integer has 64 bits");
  if (auto unquoted = missing_quotes(source, line)) return *unquoted;
  if (contains(title, "separator `=`"))
    return diagnostic_at(source.place(span), Severity::error, "'=' is missing", "write KEY = VALUE");
  return diagnostic_at(source.place(span), Severity::error, "not valid TOML: " + title, error.explanation);
}

}  // namespace hookline
