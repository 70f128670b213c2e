#include "config/toml/edit.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/lines.h"
#include "config/toml/toml_tree.h"
#include "hooks/catalog/option.h"

namespace hookline {
namespace {

/// The content of a text: each value by its key, and its tables. Order, comments and spelling do not count.
using Meaning = std::map<KeyPath, std::string>;

void add_meaning(const TomlNode& node, const SourceText& source, const KeyPath& path, Meaning& meaning) {
  switch (node.kind) {
    case TomlNode::Kind::table:
      if (!path.empty()) meaning[path] = "table";
      for (const auto& [name, child] : node.children) {
        KeyPath below = path;
        below.push_back(name);
        add_meaning(child, source, below, meaning);
      }
      return;
    case TomlNode::Kind::scalar:
      meaning[path] = to_text(node.value);
      return;
    case TomlNode::Kind::array:
    case TomlNode::Kind::date:
      meaning[path] = source.at(node.place);
      return;
  }
}

/// Returns nothing for invalid TOML.
std::optional<Meaning> meaning_of(const SourceText& source) {
  const TomlDocument document = parse_toml(source);
  if (!document.problems.empty()) return std::nullopt;
  Meaning meaning;
  for (const TomlNode& root : document.roots) add_meaning(root, source, {}, meaning);
  return meaning;
}

Meaning expect_meaning(const SourceText& source) {
  const auto meaning = meaning_of(source);
  if (!meaning)
    throw EditError("'" + source.name() + "' is not valid TOML: `hookline config validate` says where");
  return *meaning;
}

/// A line of a text, with its newline.
struct Line {
  std::size_t begin = 0, end = 0;
  std::string_view text;

  std::string_view trimmed() const { return hookline::trimmed(text); }
  bool is_header() const { return trimmed().starts_with("["); }
  bool is_empty() const { return trimmed().empty() || trimmed().starts_with("#"); }
};

std::vector<Line> lines_with_ends(std::string_view text) {
  std::vector<Line> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back({at, end, text.substr(at, end - at)});
    at = end;
  }
  return lines;
}

std::string spliced(std::string_view text, std::size_t at, std::size_t length, const std::string& with) {
  return std::string(text.substr(0, at)) + with + std::string(text.substr(at + length));
}

/// "[ddp.comm_state_option]  # mine" names {"ddp", "comm_state_option"}.
KeyPath table_of_header(const Line& line) {
  KeyPath longest;
  for (const auto& [path, place] : find_keys(line.text))
    if (path.size() > longest.size()) longest = path;
  return longest;
}

/// True for a comment that shows the key `name`: "#max_steps = 100" shows max_steps.
bool shows_as_comment(const Line& line, const std::string& name) {
  std::string_view text = line.trimmed();
  if (!text.starts_with("#")) return false;
  text.remove_prefix(std::min(text.find_first_not_of("# "), text.size()));
  if (!text.starts_with(name)) return false;
  text.remove_prefix(name.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text.starts_with("=");
}

class Editor {
 public:
  explicit Editor(const SourceText& source)
      : source_(source),
        text_(source.text()),
        lines_(lines_with_ends(text_)),
        keys_(find_keys(text_)),
        newline_(text_.find("\r\n") == text_.npos ? "\n" : "\r\n") {}

  /// Candidate texts in which `key` is set, the tidiest first. Some of them may mean something else, or be
  /// invalid TOML.
  std::vector<std::string> ways_to_set(const KeyPath& key, const std::string& value) const {
    std::vector<std::string> ways;
    if (const auto found = keys_.find(key); found != keys_.end())
      ways.push_back(spliced(text_, found->second.value.offset, found->second.value.length, value));
    const KeyPath table(key.begin(), key.end() - 1);
    const std::string assignment = key_text({key.back()}) + " = " + value + newline_;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (table.empty() || !lines_[i].is_header() || table_of_header(lines_[i]) != table) continue;
      std::size_t next = i + 1;
      std::optional<std::size_t> shown;  // the key as a comment, with its default
      for (; next < lines_.size() && !lines_[next].is_header(); ++next)
        if (shows_as_comment(lines_[next], key.back())) shown = next;
      if (shown) ways.push_back(inserted_before_line(*shown + 1, assignment));
      while (next > i + 1 && lines_[next - 1].is_empty()) --next;
      ways.push_back(inserted_before_line(next, assignment));
      ways.push_back(inserted_before_line(i + 1, assignment));
    }
    if (const auto found = keys_.find(table); !table.empty() && found != keys_.end()) {
      const Span inline_table = found->second.value;
      if (source_.at(inline_table).ends_with("}")) {
        std::size_t end = inline_table.offset + inline_table.length - 1;
        while (end > inline_table.offset && std::isspace(static_cast<unsigned char>(text_[end - 1]))) --end;
        const bool is_first = text_[end - 1] == '{';
        ways.push_back(
            spliced(text_, end, 0, (is_first ? " " : ", ") + key_text({key.back()}) + " = " + value));
      }
    }
    const std::size_t first_header = static_cast<std::size_t>(
        std::find_if(lines_.begin(), lines_.end(), [](const Line& line) { return line.is_header(); }) -
        lines_.begin());
    if (table.empty()) {
      ways.push_back(inserted_before_line(first_header, assignment));
    } else {
      ways.push_back(inserted_before_line(lines_.size(), (text_.empty() ? "" : newline_) + "[" +
                                                             key_text(table) + "]" + newline_ + assignment));
      ways.push_back(inserted_before_line(first_header, key_text(key) + " = " + value + newline_));
    }
    return ways;
  }

  std::vector<std::string> ways_to_remove(const KeyPath& key) const {
    const KeyPlace place = keys_.at(key);
    std::size_t end = place.value.offset + place.value.length;
    std::vector<std::string> ways;
    const auto line = [&](std::size_t offset) { return lines_[source_.line_of(offset) - 1]; };
    const std::size_t from = line(place.key.offset).begin;
    ways.push_back(spliced(text_, from, line(end == 0 ? 0 : end - 1).end - from, ""));
    // In an inline table: also remove the comma after the value, or the one before it.
    std::size_t start = place.key.offset;
    while (start > 0 && text_[start - 1] == ' ') --start;
    std::size_t behind = end;
    while (behind < text_.size() && text_[behind] == ' ') ++behind;
    if (behind < text_.size() && text_[behind] == ',')
      ways.push_back(spliced(text_, start, behind + 1 - start, ""));
    if (start > 0 && text_[start - 1] == ',') ways.push_back(spliced(text_, start - 1, end - start + 1, ""));
    ways.push_back(spliced(text_, start, end - start, ""));
    return ways;
  }

 private:
  std::string inserted_before_line(std::size_t line, const std::string& with) const {
    if (line < lines_.size()) return spliced(text_, lines_[line].begin, 0, with);
    const bool ends_open = !text_.empty() && text_.back() != '\n';
    return std::string(text_) + (ends_open ? newline_ : "") + with;
  }

  const SourceText& source_;
  std::string_view text_;
  std::vector<Line> lines_;
  std::map<KeyPath, KeyPlace> keys_;
  std::string newline_;
};

/// The first of `ways` that has the wanted meaning.
std::string first_that_means(const std::vector<std::string>& ways, const SourceText& source,
                             const KeyPath& key, const std::function<bool(const Meaning&)>& is_wanted) {
  for (const std::string& way : ways) {
    const auto meaning = meaning_of(SourceText(source.name(), way));
    if (meaning && is_wanted(*meaning)) return way;
  }
  throw EditError("can't change " + key_text(key) + " in '" + source.name() +
                  "' without rewriting it: change it by hand");
}

}  // namespace

std::string with_key(const SourceText& text, const KeyPath& key, const std::string& value) {
  Meaning wanted = expect_meaning(text);
  const auto as_written = meaning_of(SourceText("", "x = " + value));
  if (!as_written || as_written->size() != 1) throw EditError("'" + value + "' is not a value of TOML");
  for (std::size_t names = 1; names < key.size(); ++names) {
    const KeyPath table(key.begin(), key.begin() + static_cast<std::ptrdiff_t>(names));
    if (wanted.emplace(table, "table").first->second != "table")
      throw EditError("'" + key_text(table) + "' in '" + text.name() + "' is a value, not a table");
  }
  wanted[key] = as_written->at({"x"});
  return first_that_means(Editor(text).ways_to_set(key, value), text, key,
                          [&](const Meaning& meaning) { return meaning == wanted; });
}

std::string without_key(const SourceText& text, const KeyPath& key) {
  Meaning wanted = expect_meaning(text);
  if (wanted.erase(key) == 0) throw EditError("'" + text.name() + "' has no " + key_text(key));
  return first_that_means(Editor(text).ways_to_remove(key), text, key, [&](Meaning meaning) {
    // A table that only dotted keys defined disappears with the last of them, which is right.
    for (const auto& [path, what] : wanted)
      if (what == "table") meaning.emplace(path, what);
    return meaning == wanted;
  });
}

std::string value_in(const SourceText& text, const KeyPath& key) {
  expect_meaning(text);
  const auto keys = find_keys(text.text());
  const auto found = keys.find(key);
  return found == keys.end() ? "" : std::string(text.at(found->second.value));
}

std::string key_text(const KeyPath& key) {
  std::string text;
  for (const std::string& name : key) {
    const bool is_bare = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isalnum(c) || c == '_' || c == '-';
    });
    text += (text.empty() ? "" : ".") + (is_bare ? name : to_text(OptionValue(name)));
  }
  return text;
}

}  // namespace hookline
