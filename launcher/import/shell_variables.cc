#include "launcher/import/shell_variables.h"

#include "launcher/import/imported.h"
#include "launcher/import/shell_names.h"

namespace hookline {
namespace {

/// The variable whose characters split unquoted text.
constexpr const char* kSeparators = "IFS";

}  // namespace

std::optional<ShellAssignment> assignment_of(const RawShellWord& word) {
  ShellAssignment result;
  std::size_t i = 0;
  const auto is_plain = [&](std::size_t at) {
    return at < word.pieces.size() && !word.pieces[at].is_quoted && !word.pieces[at].is_replaced;
  };
  for (; is_plain(i) && word.pieces[i].text.size() == 1 && is_of_shell_name(word.pieces[i].text[0]); ++i)
    result.name += word.pieces[i].text;
  if (result.name.empty() || !begins_shell_name(result.name[0])) return std::nullopt;
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

/// A shell does not take IFS from the environment, so its value is known from the start.
ShellVariables::ShellVariables() {
  variables_[kSeparators].value.texts = {" \t\n"};
  variables_[kSeparators].is_here = true;
}

/// Nothing if only a shell knows the separators.
std::optional<std::string> ShellVariables::separators() const {
  const Value& value = variables_.at(kSeparators).value;
  const auto changed = known_changes_.find(kSeparators);
  const bool may_have_changed = runs_later_ && changed != known_changes_.end() && changed->second > index_;
  if (has_local_separators_ || may_have_changed || value.is_open) return std::nullopt;
  return value.texts.empty() ? " \t\n" : value.texts[0];  // unset: like the default
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
    for (const RawShellWord& each : assignment.value.array) value.defaults.merge(add_fields(each, words));
    // A list that is only partly known keeps its other words: each word says by itself whether it is open.
    for (ShellWord& each : words) {
      value.texts.push_back(each.text);
      value.defaults.merge(each.defaults);
    }
  } else {
    const ShellWord word = one_word(assignment.value);
    value = {{word.text}, word.is_open, word.defaults};
  }
  if (assignment.appends) {
    const Variable* const former = known(assignment.name);
    Value whole = former ? former->value : Value{};
    if (assignment.value.is_array) {
      whole.texts.insert(whole.texts.end(), value.texts.begin(), value.texts.end());
    } else {
      if (whole.texts.empty()) whole.texts.emplace_back();
      whole.texts[0] += value.texts[0];
      // The value before may be the environment's.
      whole.is_open = whole.is_open || value.is_open || !former;
    }
    whole.defaults.merge(value.defaults);
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
  if (is_reference(name))
    forget_all();
  else
    forget_one(name);
}

void ShellVariables::forget_one(const std::string& name) {
  Variable& variable = change(name);
  variable.value = {{}, true};
  variable.is_here = true;
  if (variable.is_exported) show_exported(name, variable);
}

/// Forgets all variables but IFS: a file that left IFS changed would break the script that sources it.
void ShellVariables::forget_all() {
  count(variables_.size());
  others_are_open_ = true;
  changes_[""] = index_;
  if (in_function_) changed_in_functions_.insert("");
  std::vector<std::string> names;
  for (const auto& [name, variable] : variables_)
    if (variable.is_here && !variable.value.is_open && name != kSeparators) names.push_back(name);
  for (const std::string& name : names) {
    count(0);
    forget_one(name);
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
  if (!is_exported && !is_sure_ && was_exported) return;  // it may still be exported
  variable.is_exported = is_exported;
  if (is_exported)
    show_exported(name, variable);
  else if (was_exported)
    exports_.push_back({index_, name, std::nullopt});
}

void ShellVariables::mark_converted(const std::string& name) { change(name).is_converted = true; }

void ShellVariables::mark_reference(const std::string& name) {
  change(name).is_reference = true;
  forget_all();
}

bool ShellVariables::is_reference(const std::string& name) const {
  const auto found = variables_.find(name);
  return found != variables_.end() && found->second.is_reference;
}

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
  if (is_reference(name)) return forget_all();
  Variable& variable = change(name);
  const bool is_number = value.texts.size() == 1 && !value.texts[0].empty() &&
                         value.texts[0].find_first_not_of("0123456789") == std::string::npos &&
                         (value.texts[0] == "0" || value.texts[0][0] != '0');
  if (variable.is_converted && !is_number) value = {{}, true};
  const bool is_same = variable.is_here && variable.value == value;
  if (!is_sure_ && !is_same) value = {{}, true};
  if (!is_sure_ && is_same) value.defaults.merge(variable.value.defaults);
  variable.value = std::move(value);
  variable.is_here = true;
  variable.is_exported = variable.is_exported || exports_all_;
  if (variable.is_exported) show_exported(name, variable);
}

void ShellVariables::show_exported(const std::string& name, const Variable& variable) {
  if (!variable.is_here) return;  // the environment has it already
  const Value& value = variable.value;
  ShellWord word;
  word.is_open = value.is_open;
  word.text = value.texts.empty() ? "$" + name : value.texts[0];
  word.as_written = word.text;
  word.defaults = value.defaults;
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
    throw ImportError(place() +
                      "the script's variables hold more than 1 MiB of text here: write the values that the "
                      "launch needs into its command");
}

}  // namespace hookline
