// The only source that includes toml11, whose single header takes long to compile.
#include "config/toml/toml_tree.h"

#include <algorithm>
#include <set>
#include <toml.hpp>

#include "config/toml/toml_errors.h"
#include "config/toml/toml_keys.h"

namespace hookline {
namespace {

constexpr std::size_t kMostProblems = 20;
constexpr std::size_t kMostRounds = 40;

using Value = toml::value;
using Parsed = toml::result<Value, std::vector<toml::error_info>>;

Parsed parse(const std::string& text, const std::string& name) {
  return toml::try_parse<toml::type_config>(std::vector<unsigned char>(text.begin(), text.end()), name);
}

// ---- from toml11's values to our tree

Span span_of(const toml::source_location& at, const SourceText& source) {
  const Span line = source.line_span(at.first_line_number());
  const std::size_t column = at.first_column_number() > 0 ? at.first_column_number() - 1 : 0;
  return {line.offset + std::min(column, line.length), at.length()};
}

TomlNode convert(const Value& value, const KeyPath& path, const std::map<KeyPath, KeyPlace>& keys,
                 const SourceText& source) {
  TomlNode node;
  if (value.is_boolean()) {
    node.value = value.as_boolean();
  } else if (value.is_integer()) {
    node.value = static_cast<std::int64_t>(value.as_integer());
  } else if (value.is_floating()) {
    node.value = static_cast<double>(value.as_floating());
  } else if (value.is_string()) {
    node.value = std::string(value.as_string());
  }
  const bool is_list_of_texts =
      value.is_array() && std::all_of(value.as_array().begin(), value.as_array().end(),
                                      [](const Value& each) { return each.is_string(); });
  if (value.is_array()) {
    // Keys inside arrays have no path, so their places are not in `keys`.
    for (const Value& each : value.as_array()) node.elements.push_back(convert(each, path, {}, source));
  }
  if (is_list_of_texts) {
    std::vector<std::string> texts;
    for (const Value& each : value.as_array()) texts.push_back(each.as_string());
    node.value = std::move(texts);
  }
  node.kind = value.is_table()                        ? TomlNode::Kind::table
              : value.is_array() && !is_list_of_texts ? TomlNode::Kind::array
              : is_list_of_texts || value.is_boolean() || value.is_integer() || value.is_floating() ||
                      value.is_string()
                  ? TomlNode::Kind::scalar
                  : TomlNode::Kind::date;
  const auto found = keys.find(path);
  if (found != keys.end()) {
    node.key = found->second.key;
    node.place = found->second.value;
  } else if (!path.empty()) {
    node.key = node.place = span_of(value.location(), source);
  }
  if (value.is_table()) {
    for (const auto& [name, child] : value.as_table()) {
      KeyPath below = path;
      below.push_back(name);
      node.children.emplace_back(name, convert(child, below, keys, source));
    }
    std::sort(node.children.begin(), node.children.end(),
              [](const auto& a, const auto& b) { return a.second.key.offset < b.second.key.offset; });
  }
  return node;
}

// ---- from toml11's errors to ours

ParserError error_of(const toml::error_info& error, const SourceText& source) {
  ParserError result{error.title(), {}, {}, {}};
  const auto& places = error.locations();
  if (places.empty()) return result;
  const auto& [location, explanation] = places.front();
  result.explanation = explanation;
  result.place = span_of(location, source);
  if (places.size() > 1) result.first_line = places[1].first.first_line_number();
  return result;
}

// ---- reading on after an error

void blank(std::string& text, Span span) {
  for (std::size_t i = span.offset; i < span.offset + span.length && i < text.size(); ++i)
    if (text[i] != '\n') text[i] = ' ';
}

/// What must be removed with `line` so that the rest can be read: for a header or a multi-line string, the
/// whole section.
Span statement_at(const SourceText& source, const std::string& text, std::size_t line) {
  const Span first = source.line_span(line);
  const std::string_view statement = source.at(first);
  const bool is_section = is_header(source, first) || statement.find("\"\"\"") != statement.npos ||
                          statement.find("'''") != statement.npos;
  if (!is_section) return first;
  std::size_t end = text.find("\n[", first.offset);
  if (end == text.npos) end = text.size();
  return {first.offset, end - first.offset};
}

/// Reports "\u0000" in strings: a system call or a program would stop reading the string there.
void find_zeros(const TomlNode& node, const SourceText& source, std::vector<Diagnostic>& problems) {
  const auto has_zero = [](const std::string& text) { return text.find('\0') != text.npos; };
  const auto* text = std::get_if<std::string>(&node.value);
  if (node.kind == TomlNode::Kind::scalar && text && has_zero(*text))
    problems.push_back(diagnostic_at(source.place(node.place), Severity::error,
                                     "a string with a NUL character",
                                     "no program and no file takes one: leave \\u0000 out"));
  for (const TomlNode& each : node.elements) find_zeros(each, source, problems);
  for (const auto& [name, child] : node.children) {
    if (has_zero(name))
      problems.push_back(diagnostic_at(source.place(child.key), Severity::error, "a key with a NUL character",
                                       "leave \\u0000 out"));
    find_zeros(child, source, problems);
  }
}

TomlDocument parsed_toml(const SourceText& source) {
  TomlDocument document;
  if (const auto deep = find_deep_nesting(source.text())) {
    document.problems.push_back(diagnostic_at(source.place({*deep, 1}), Severity::error, "nested too deep",
                                              "a config nests at most 64 deep"));
    return document;
  }
  std::vector<std::string> texts = {std::string(source.text())};
  std::set<std::size_t> reported;
  for (std::size_t round = 0; round < kMostRounds && !texts.empty(); ++round) {
    std::string& text = texts.back();
    const Parsed parsed = parse(text, source.name());
    if (parsed.is_ok()) {
      const ScannedKeys keys = scan_keys(text);
      document.roots.push_back(convert(parsed.unwrap(), {}, keys.places, source));
      for (const std::size_t at : keys.misplaced_headers)
        document.problems.push_back(diagnostic_at(source.place({at, 1}), Severity::error,
                                                  "a table's header needs a line of its own",
                                                  "start a new line before it"));
      texts.pop_back();
      continue;
    }
    const std::string before = text;
    std::vector<std::string> twice;
    for (const toml::error_info& error : parsed.unwrap_err()) {
      Diagnostic problem = diagnostic_of(error_of(error, source), source);
      const auto line = static_cast<std::size_t>(problem.line);
      const Span statement = statement_at(source, before, line);
      if (problem.kind == ProblemKind::given_twice && is_header(source, statement)) {
        std::string section(before.size(), ' ');
        for (std::size_t i = 0; i < before.size(); ++i)
          if (before[i] == '\n' || (i >= statement.offset && i < statement.offset + statement.length))
            section[i] = before[i];
        twice.push_back(std::move(section));
      }
      blank(text, statement);
      if (reported.insert(line).second) document.problems.push_back(std::move(problem));
      if (document.problems.size() >= kMostProblems) {
        document.problems.push_back(diagnostic_at(Place{source.name()}, Severity::error,
                                                  "has too many errors: not all of it was read",
                                                  "is it a TOML file?"));
        return document;
      }
    }
    if (text == before) texts.pop_back();
    for (std::string& section : twice) texts.insert(texts.begin(), std::move(section));
  }
  return document;
}

}  // namespace

TomlDocument parse_toml(const SourceText& source) {
  TomlDocument document = parsed_toml(source);
  for (const TomlNode& root : document.roots) find_zeros(root, source, document.problems);
  return document;
}

}  // namespace hookline
