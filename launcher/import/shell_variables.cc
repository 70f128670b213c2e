#include "launcher/import/shell_variables.h"

#include <cctype>

#include "launcher/import/imported.h"

namespace hookline {
namespace {

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::size_t name_length(const std::string& text, std::size_t from) {
  if (from >= text.size() || !begins_name(text[from])) return 0;
  std::size_t end = from;
  while (end < text.size() && is_of_name(text[end])) ++end;
  return end - from;
}

/// Does a shell put names of files, a home or several words in its place?
bool is_expanded(const RawShellWord& raw) {
  std::string plain;  // what is quoted has no such meaning
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

/// As it is written, with what was quoted behind backslashes.
std::string for_a_shell(const RawShellWord& raw) {
  std::string text;
  for (const ShellPiece& piece : raw.pieces)
    for (const char c : piece.text) {
      const bool is_plain = is_of_name(c) || std::string_view("/.,:=+-@%").find(c) != std::string_view::npos;
      if (piece.is_quoted && c == '\n')
        text += "'\n'";
      else
        text += std::string(piece.is_quoted && !is_plain ? "\\" : "") + c;
    }
  return text;
}

/// Of an element of an array, or a part of a value, whose own replacement was not possible.
bool has_open(const std::string& text) { return text.find_first_of("$`") != text.npos; }

std::string without_quotes(const std::string& text) {
  const bool is_quoted = text.size() > 1 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0];
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

std::optional<ShellAssignment> assignment_of(const RawShellWord& word) {
  ShellAssignment result;
  std::size_t i = 0;
  const auto is_plain = [&](std::size_t at) {
    return at < word.pieces.size() && !word.pieces[at].is_quoted && !word.pieces[at].is_replaced;
  };
  for (; is_plain(i) && word.pieces[i].text.size() == 1 && is_of_name(word.pieces[i].text[0]); ++i)
    result.name += word.pieces[i].text;
  if (result.name.empty() || !begins_name(result.name[0])) return std::nullopt;
  if (is_plain(i) && word.pieces[i].text == "+") {
    result.appends = true;
    ++i;
  }
  if (!is_plain(i) || word.pieces[i].text != "=") return std::nullopt;
  result.value = word;
  result.value.pieces.erase(result.value.pieces.begin(),
                            result.value.pieces.begin() + static_cast<std::ptrdiff_t>(i + 1));
  return result;
}

void ShellVariables::begin_command(int line, std::size_t index, bool is_sure, bool runs_later,
                                   bool in_function) {
  in_function_ = in_function;
  line_ = line;
  index_ = index;
  is_sure_ = is_sure;
  runs_later_ = runs_later;
}

void ShellVariables::assign(const ShellAssignment& assignment) {
  Value value;
  if (assignment.value.is_array) {
    std::vector<ShellWord> words;
    for (const RawShellWord& each : assignment.value.array) add_fields(each, words);
    // One that is only partly known still has its other words: those say by themselves what is open.
    for (const ShellWord& each : words) value.texts.push_back(each.text);
  } else {
    const ShellWord word = one_word(assignment.value);
    value = {{word.text}, word.is_open};
  }
  if (assignment.appends) {
    const Variable* const former = known(assignment.name);
    Value whole = former ? former->value : Value{};
    if (assignment.value.is_array) {
      whole.texts.insert(whole.texts.end(), value.texts.begin(), value.texts.end());
    } else {
      if (whole.texts.empty()) whole.texts.emplace_back();
      whole.texts[0] += value.texts[0];
      // What it is appended to may be the environment's.
      whole.is_open = whole.is_open || value.is_open || !former;
    }
    for (const std::string& text : whole.texts) count(text.size());
    value = std::move(whole);
  }
  set(assignment.name, std::move(value));
}

void ShellVariables::unset(const std::string& name) {
  set(name, {});
  mark_exported(name, false);
}

void ShellVariables::forget(const std::string& name) {
  Variable& variable = change(name);
  variable.value = {{}, true};
  variable.is_here = true;
  if (variable.is_exported) show_exported(name, variable);
}

void ShellVariables::forget_all() {
  count(variables_.size());
  others_are_open_ = true;
  changes_[""] = index_;
  if (in_function_) changed_in_functions_.insert("");
  std::vector<std::string> names;
  for (const auto& [name, variable] : variables_)
    if (variable.is_here && !variable.value.is_open) names.push_back(name);
  for (const std::string& name : names) {
    count(0);
    forget(name);
  }
}

void ShellVariables::call_functions() {
  const std::set<std::string> names = changed_in_functions_;
  count(names.size());
  if (names.contains("")) return forget_all();
  for (const std::string& name : names) forget(name);
}

void ShellVariables::forget_assigned_in(const std::string& sum) {
  for (const std::string& name : names_set_by_sum(sum)) forget(name);
}

void ShellVariables::mark_exported(const std::string& name, bool is_exported) {
  Variable& variable = change(name);
  const bool was_exported = variable.is_exported;
  if (!is_exported && !is_sure_ && was_exported) return;  // as it may be
  variable.is_exported = is_exported;
  if (is_exported)
    show_exported(name, variable);
  else if (was_exported)
    exports_.push_back({index_, name, std::nullopt});
}

void ShellVariables::mark_converted(const std::string& name) { change(name).is_converted = true; }

void ShellVariables::end_subshell(std::size_t index) {
  if (subshells_.empty()) return;
  index_ = index;
  for (; former_.size() > subshells_.back().begin; former_.pop_back()) {
    auto& [name, former] = former_.back();
    Variable& variable = variables_[name];
    const bool was_exported = variable.is_exported;
    variable = std::move(former);
    if (variable.is_exported)
      show_exported(name, variable);
    else if (was_exported)
      exports_.push_back({index_, name, std::nullopt});
  }
  others_are_open_ = subshells_.back().others_are_open;
  subshells_.pop_back();
}

ShellVariables::Variable& ShellVariables::change(const std::string& name) {
  Variable& variable = variables_[name];
  if (!subshells_.empty()) former_.emplace_back(name, variable);
  changes_[name] = index_;
  if (in_function_) changed_in_functions_.insert(name);
  return variable;
}

void ShellVariables::set(const std::string& name, Value value) {
  Variable& variable = change(name);
  const bool is_number = value.texts.size() == 1 && !value.texts[0].empty() &&
                         value.texts[0].find_first_not_of("0123456789") == std::string::npos &&
                         (value.texts[0] == "0" || value.texts[0][0] != '0');
  if (variable.is_converted && !is_number) value = {{}, true};
  const bool is_same = variable.is_here && variable.value == value;
  if (!is_sure_ && !is_same) value = {{}, true};
  variable.value = std::move(value);
  variable.is_here = true;
  variable.is_exported = variable.is_exported || exports_all_;
  if (variable.is_exported) show_exported(name, variable);
}

void ShellVariables::show_exported(const std::string& name, const Variable& variable) {
  if (!variable.is_here) return;  // of the environment, which has it already
  const Value& value = variable.value;
  ShellWord word;
  word.is_open = value.is_open;
  word.text = value.texts.empty() ? "$" + name : value.texts[0];
  word.as_written = word.text;
  count(word.text.size());
  exports_.push_back({index_, name, std::move(word)});
}

const ShellVariables::Variable* ShellVariables::known(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() || !found->second.is_here ? nullptr : &found->second;
}

void ShellVariables::count(std::size_t bytes) {
  constexpr std::size_t kElementBytes = 16;
  bytes_ += bytes + kElementBytes;
  if (bytes_ > kLargestImportBytes)
    throw ImportError(
        place() +
        "its variables come to more than 1 MiB of text here, which no launch needs: write their "
        "values into the command line itself");
}

ShellWord ShellVariables::one_word(const RawShellWord& raw) {
  ShellWord word;
  for (const ShellPiece& piece : raw.pieces) {
    if (!piece.is_replaced) {
      word.text += piece.text;
      continue;
    }
    const Value value = value_of(piece.text);
    for (std::size_t i = 0; i < value.texts.size(); ++i) word.text += (i ? " " : "") + value.texts[i];
    word.is_open = word.is_open || value.is_open;
  }
  word.as_written = raw.text();
  return word;
}

void ShellVariables::add_fields(const RawShellWord& raw, std::vector<ShellWord>& to) {
  std::vector<ShellWord> fields;
  bool is_begun = false;
  const auto add = [&](const std::string& text, bool is_open) {
    if (!is_begun) fields.emplace_back();
    is_begun = true;
    fields.back().text += text;
    fields.back().is_open = fields.back().is_open || is_open;
  };
  for (const ShellPiece& piece : raw.pieces) {
    if (!piece.is_replaced) {
      add(piece.text, false);
      continue;
    }
    const Value value = value_of(piece.text);
    const bool is_list = piece.text.find("[@]") != piece.text.npos;
    if (value.is_open || (piece.is_quoted && !is_list)) {
      std::string joined;
      for (std::size_t i = 0; i < value.texts.size(); ++i) joined += (i ? " " : "") + value.texts[i];
      add(joined, value.is_open);
      continue;
    }
    for (std::size_t i = 0; i < value.texts.size(); ++i) {
      if (i > 0) is_begun = false;
      if (piece.is_quoted) {
        add(value.texts[i], has_open(value.texts[i]));
        continue;
      }
      std::string part;
      for (const char c : value.texts[i]) {
        if (!std::isspace(static_cast<unsigned char>(c))) {
          part += c;
          continue;
        }
        if (!part.empty()) add(part, has_open(part));
        part.clear();
        is_begun = false;
      }
      if (!part.empty()) add(part, has_open(part));
    }
  }
  for (ShellWord& field : fields) {
    field.as_written = fields.size() == 1 ? raw.text() : field.text;
    if (fields.size() == 1 && !field.is_open && is_expanded(raw)) field.expanded = for_a_shell(raw);
    to.push_back(std::move(field));
  }
}

/// What "$NAME", "${NAME:-default}", "$((1 + N))" and so on come to; what stays as it is written is open.
ShellVariables::Value ShellVariables::value_of(const std::string& text) {
  constexpr int kDeepest = 50;
  if (++depth_ > kDeepest)
    throw ImportError(place() + "it nests ${...} deeper than " + std::to_string(kDeepest) +
                      " levels: write the value itself in its place");
  Value value = text.starts_with("$((") && text.ends_with("))") ? sum_of(text.substr(3, text.size() - 5))
                                                                : value_of_name(text);
  if (value.is_open) value.texts = {text};
  for (const std::string& each : value.texts) count(each.size());
  --depth_;
  return value;
}

ShellVariables::Value ShellVariables::sum_of(const std::string& text) {
  std::string sum, value;
  const bool is_known = with_values(text, sum) && shell_sum(sum, value);
  forget_assigned_in(text);
  return is_known ? Value{{value}, false} : Value{{}, true};
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
  if (found ? found->value.is_open : others_are_open_) return open;
  for (const std::string& each : {name, std::string()}) {
    const auto changed = known_changes_.find(each);
    if (runs_later_ && changed != known_changes_.end() && changed->second > index_) return open;
  }
  if (rest == "[@]" || rest == "[*]") return found ? found->value : open;
  // Without an index an array is its first element.
  const Value first = {{found && !found->value.texts.empty() ? found->value.texts[0] : ""}, false};
  if (rest.empty()) return found ? first : open;
  for (const std::string sign : {":-", "-", ":=", "="}) {
    if (!rest.starts_with(sign)) continue;
    const bool is_set =
        found && !found->value.texts.empty() && (sign[0] != ':' || !found->value.texts[0].empty());
    if (is_set) return first;
    RawShellWord otherwise;
    otherwise.pieces = quoted_shell_pieces(without_quotes(rest.substr(sign.size())));
    const ShellWord word = one_word(otherwise);
    const Value value = {{word.text}, word.is_open};
    if (sign.ends_with('=')) set(name, value);
    return value;
  }
  return open;
}

/// A sum with the values of its variables, which need no $ there.
bool ShellVariables::with_values(const std::string& text, std::string& sum) {
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
    const Value value = value_of(has_sign ? written : "$" + written);
    if (value.is_open || value.texts.size() != 1) return false;
    sum += "(" + value.texts[0] + ")";
    i = end;
  }
  return true;
}

}  // namespace hookline
