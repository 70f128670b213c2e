// Expands a word: replaces its variables, and splits it where a shell splits it.
#include <algorithm>
#include <cctype>

#include "launcher/import/imported.h"
#include "launcher/import/shell_names.h"
#include "launcher/import/shell_variables.h"

namespace hookline {
namespace {

std::size_t name_length(const std::string& text, std::size_t from) {
  if (from >= text.size() || !begins_shell_name(text[from])) return 0;
  std::size_t end = from;
  while (end < text.size() && is_of_shell_name(text[end])) ++end;
  return end - from;
}

/// Does a shell replace the word by file names, a home folder or several words?
bool is_expanded(const RawShellWord& raw) {
  std::string plain;  // quoted characters are not special
  for (const ShellPiece& piece : raw.pieces) {
    if (piece.is_replaced) return false;
    plain += piece.is_quoted ? std::string(piece.text.size(), 'x') : piece.text;
  }
  const bool begins_quoted = !raw.pieces.empty() && raw.pieces[0].is_quoted;
  if (plain.find_first_of("*?") != plain.npos || (plain.starts_with("~") && !begins_quoted)) return true;
  const auto has_between = [&](char open, char close, const std::string& needed) {
    const std::size_t begin = plain.find(open), end = plain.find(close, begin == plain.npos ? 0 : begin);
    if (begin == plain.npos || end == plain.npos) return false;
    const std::string inner = plain.substr(begin + 1, end - begin - 1);
    return needed.empty() ? !inner.empty() : inner.find(needed) != inner.npos;
  };
  return has_between('[', ']', "") || has_between('{', '}', ",") || has_between('{', '}', "..");
}

/// The word as written, with backslashes before what was quoted.
std::string for_a_shell(const RawShellWord& raw) {
  std::string text;
  for (const ShellPiece& piece : raw.pieces)
    for (const char c : piece.text) {
      const bool is_plain =
          is_of_shell_name(c) || std::string_view("/.,:=+-@%").find(c) != std::string_view::npos;
      if (piece.is_quoted && c == '\n')
        text += "'\n'";
      else
        text += std::string(piece.is_quoted && !is_plain ? "\\" : "") + c;
    }
  return text;
}

/// Does an array's element, or a part of a value, hold an expansion that could not be replaced?
bool has_open(const std::string& text) { return text.find_first_of("$`") != text.npos; }

bool separates(const std::optional<std::string>& separators, char c) {
  return separators && separators->find(c) != separators->npos;
}

/// No script uses letters or digits as separators.
bool is_never_split(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c); });
}

std::string without_quotes(const std::string& text) {
  const bool is_quoted = text.size() > 1 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0];
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

/// Joins several texts into one. Those of "${A[*]}" are joined by the first separator.
void ShellVariables::join(Value& value, const std::string& text) const {
  std::string between = " ";
  if (text.ends_with("[*]}") && value.texts.size() > 1) {
    const auto known = separators();
    if (!known) value = {{text}, true};
    between = known ? known->substr(0, 1) : "";
  }
  std::string joined;
  for (std::size_t i = 0; i < value.texts.size(); ++i) joined += (i ? between : "") + value.texts[i];
  value.texts = {joined};
}

ShellWord ShellVariables::one_word(const RawShellWord& raw) {
  ShellWord word;
  for (const ShellPiece& piece : raw.pieces) {
    if (!piece.is_replaced) {
      word.text += piece.text;
      continue;
    }
    Value value = value_of(piece.text);
    join(value, piece.text);
    word.text += value.texts[0];
    word.is_open = word.is_open || value.is_open;
    word.defaults.insert(value.defaults.begin(), value.defaults.end());
  }
  word.as_written = raw.text();
  return word;
}

ShellDefaults ShellVariables::add_fields(const RawShellWord& raw, std::vector<ShellWord>& to) {
  std::vector<ShellWord> fields;
  ShellDefaults defaults, without_word;  // of the current piece; of those that became no word
  bool is_begun = false, is_added = false;
  const auto add = [&](const std::string& text, bool is_open) {
    if (!is_begun) fields.emplace_back();
    is_begun = is_added = true;
    fields.back().text += text;
    fields.back().is_open = fields.back().is_open || is_open;
    for (const auto& each : defaults) {
      count(0);
      fields.back().defaults.insert(each);
    }
  };
  for (const ShellPiece& piece : raw.pieces) {
    if (!piece.is_replaced) {
      defaults.clear();
      add(piece.text, false);
      continue;
    }
    Value value = value_of(piece.text);
    const auto separators = this->separators();
    if (!piece.is_quoted && !separators &&
        !std::all_of(value.texts.begin(), value.texts.end(), is_never_split))
      value = {{piece.text}, true};
    const bool is_list = piece.text.find("[@]") != piece.text.npos, is_joined = piece.is_quoted && !is_list;
    if (is_joined) join(value, piece.text);
    defaults = value.defaults;
    is_added = false;
    if (value.is_open || is_joined) {
      add(value.texts[0], value.is_open);
      continue;
    }
    for (std::size_t i = 0; i < value.texts.size(); ++i) {
      if (i > 0) is_begun = false;
      if (piece.is_quoted) {
        add(value.texts[i], has_open(value.texts[i]));
        continue;
      }
      const std::string& text = value.texts[i];
      const auto is_blank = [&](char c) {
        return separates(separators, c) && std::isspace(static_cast<unsigned char>(c));
      };
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = at;
        while (at < text.size() && !separates(separators, text[at])) ++at;
        const std::string part = text.substr(begin, at - begin);
        if (!part.empty()) add(part, has_open(part));
        if (at == text.size()) break;
        while (at < text.size() && is_blank(text[at])) ++at;
        if (at < text.size() && separates(separators, text[at])) {  // ends a field, even an empty one
          if (!is_begun) add("", false);
          for (++at; at < text.size() && is_blank(text[at]);) ++at;
        }
        is_begun = false;
      }
    }
    if (!is_added) without_word.merge(defaults);
  }
  for (ShellWord& field : fields) {
    field.as_written = fields.size() == 1 ? raw.text() : field.text;
    if (fields.size() == 1 && !field.is_open && is_expanded(raw)) field.expanded = for_a_shell(raw);
    to.push_back(std::move(field));
  }
  return without_word;
}

/// The value of "$NAME", "${NAME:-default}", "$((1 + N))" and so on; open if it stays as written.
ShellVariables::Value ShellVariables::value_of(const std::string& text) {
  constexpr int kDeepestWord = 50;
  if (++depth_ > kDeepestWord)
    throw ImportError(place() + "it nests ${...} deeper than " + std::to_string(kDeepestWord) +
                      " levels: write the value itself in its place");
  Value value = text.starts_with("$((") && text.ends_with("))") ? sum_of(text.substr(3, text.size() - 5))
                                                                : value_of_name(text);
  if (value.is_open) value = {{text}, true};
  for (const std::string& each : value.texts) count(each.size());
  for (std::size_t i = 0; i < value.defaults.size(); ++i) count(0);
  --depth_;
  return value;
}

ShellVariables::Value ShellVariables::sum_of(const std::string& text) {
  std::string sum, value;
  ShellDefaults defaults;
  const bool is_known = with_values(text, sum, defaults) && shell_sum(sum, value);
  forget_assigned_in(text);
  return is_known ? Value{{value}, false, std::move(defaults)} : Value{{}, true};
}

ShellVariables::Value ShellVariables::value_of_name(const std::string& text) {
  const Value open = {{}, true};
  if (!text.starts_with("$") || text.starts_with("$(")) {
    substitutions_.emplace_back(line_, text);
    return open;
  }
  const bool has_braces = text.starts_with("${");
  const std::size_t begin = has_braces ? 2 : 1, length = name_length(text, begin);
  if (length == 0) return open;
  const std::string name = text.substr(begin, length);
  const Variable* const found = known(name);
  const std::string rest = has_braces ? text.substr(begin + length, text.size() - begin - length - 1) : "";
  if ((rest.starts_with("=") || rest.starts_with(":=")) && is_reference(name)) forget_all();
  if (found ? found->value.is_open : others_are_open_) return open;
  for (const std::string& each : {name, std::string()}) {
    const auto changed = known_changes_.find(each);
    if (runs_later_ && changed != known_changes_.end() && changed->second > index_) return open;
  }
  if (rest == "[@]" || rest == "[*]") return found ? found->value : open;
  // Without an index, an array means its first element.
  Value first = {{""}, false};
  if (found && !found->value.texts.empty()) first.texts[0] = found->value.texts[0];
  if (found) first.defaults = found->value.defaults;
  if (rest.empty()) return found ? first : open;
  for (const std::string sign : {":-", "-", ":=", "="}) {
    if (!rest.starts_with(sign)) continue;
    const bool is_set =
        found && !found->value.texts.empty() && (sign[0] != ':' || !found->value.texts[0].empty());
    if (is_set) return first;
    RawShellWord otherwise;
    otherwise.pieces = quoted_shell_pieces(without_quotes(rest.substr(sign.size())));
    const ShellWord word = one_word(otherwise);
    Value value = {{word.text}, word.is_open, word.defaults};
    if (!found && !word.is_open) value.defaults[name] = {line_, word.text, text};
    if (sign.ends_with('=')) set(name, value);
    return value;
  }
  return open;
}

/// Puts the values of variables, which need no $ there, into the text of a sum.
bool ShellVariables::with_values(const std::string& text, std::string& sum, ShellDefaults& defaults) {
  for (std::size_t i = 0; i < text.size();) {
    const bool has_sign = text[i] == '$';
    const bool has_braces = has_sign && i + 1 < text.size() && text[i + 1] == '{';
    const std::size_t begin = i + (has_braces ? 2 : has_sign ? 1 : 0), length = name_length(text, begin);
    if (length == 0) {
      if (has_sign) return false;
      sum += text[i++];
      continue;
    }
    std::size_t end = begin + length;
    if (has_braces) end = text.find('}', end) + 1;
    if (end == 0) return false;
    const std::string written = text.substr(i, end - i);
    Value value = value_of(has_sign ? written : "$" + written);
    if (value.is_open || value.texts.size() != 1) return false;
    sum += "(" + value.texts[0] + ")";
    defaults.merge(value.defaults);
    i = end;
  }
  return true;
}

}  // namespace hookline
