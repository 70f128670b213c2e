// A script's variables, as far as they are known without running it, and the words that they expand to.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/import/shell_lexer.h"
#include "launcher/import/shell_script.h"

namespace hookline {

/// "NAME=" or "NAME+=" at the beginning of a word.
struct ShellAssignment {
  std::string name;
  bool appends = false;
  RawShellWord value;
};

std::optional<ShellAssignment> assignment_of(const RawShellWord& word);

class ShellVariables {
 public:
  ShellVariables();

  /// Begins a command, whose words come next. `is_sure`: it runs exactly once, whatever the script finds.
  /// `runs_later`: it is in a function or a loop, and so may run after later commands. `in_function`: each
  /// call of the function repeats its changes.
  void begin_command(int line, std::size_t index, bool is_sure, bool runs_later, bool in_function);

  void assign(const ShellAssignment& assignment);
  void unset(const std::string& name);

  /// From here on only a shell knows the value of this variable, or of any variable.
  void forget(const std::string& name);
  void forget_all();
  /// Forgets each variable that the sum assigns to: "N++", "A = B + 1".
  void forget_assigned_in(const std::string& sum);

  void mark_exported(const std::string& name, bool is_exported = true);
  void export_all_assigned(bool does) { exports_all_ = does; }
  /// Forgets each variable that a function changes.
  void call_functions();

  /// For `declare -i`: a value that is assigned to it is known only if it is digits.
  void mark_converted(const std::string& name);

  /// `local IFS=,` changes how words are split until the function ends.
  void begin_local_separators() { has_local_separators_ = true; }
  void end_local_separators() { has_local_separators_ = false; }

  /// For `declare -n`: assignments to it set another variable, whose name only a shell knows.
  void mark_reference(const std::string& name);

  /// Changes to variables between these two have no effect afterwards.
  void begin_subshell() { subshells_.push_back({former_.size(), others_are_open_}); }
  void end_subshell(std::size_t index);  // `index`: of the next command

  /// Changes to what the script exports, in order.
  std::vector<ShellExport> take_exports() { return std::move(exports_); }
  /// Commands in $(…), `…` and <(…), with their lines.
  std::vector<std::pair<int, std::string>> take_substitutions() { return std::move(substitutions_); }

  /// For each name, the last command that changes it; "" stands for all names.
  std::map<std::string, std::size_t> take_changes() { return std::move(changes_); }
  void know_changes(std::map<std::string, std::size_t> changes) { known_changes_ = std::move(changes); }

  /// Expands a word that is not split, such as an assignment's value.
  ShellWord one_word(const RawShellWord& raw);

  /// Appends the words that one word of a command expands to. Returns the defaults used in those of its parts
  /// that expand to no word, such as "${MORE:-}".
  ShellDefaults add_fields(const RawShellWord& raw, std::vector<ShellWord>& to);

 private:
  struct Value {
    std::vector<std::string> texts;  // several: an array; none: unset
    bool is_open = false;            // it is not known
    ShellDefaults defaults = {};     // that its texts use
    bool operator==(const Value& other) const { return texts == other.texts && is_open == other.is_open; }
  };
  struct Variable {
    Value value;
    bool is_here = false;  // the script has set it, or unset it; else it is the environment's
    bool is_exported = false, is_converted = false, is_reference = false;
  };

  Variable& change(const std::string& name);
  void forget_one(const std::string& name);
  bool is_reference(const std::string& name) const;
  void set(const std::string& name, Value value);
  void show_exported(const std::string& name, const Variable& variable);
  Value value_of(const std::string& text);
  Value value_of_name(const std::string& text);
  Value sum_of(const std::string& text);
  bool with_values(const std::string& text, std::string& sum, ShellDefaults& defaults);
  std::optional<std::string> separators() const;
  void join(Value& value, const std::string& text) const;
  void count(std::size_t bytes);
  const Variable* known(const std::string& name) const;
  std::string place() const { return "line " + std::to_string(line_) + ": "; }

  std::map<std::string, Variable> variables_;
  std::vector<ShellExport> exports_;
  std::vector<std::pair<int, std::string>> substitutions_;
  std::vector<std::pair<std::string, Variable>> former_;  // values before a subshell changed them
  struct Subshell {
    std::size_t begin = 0;  // its first change, in former_
    bool others_are_open = false;
  };
  std::vector<Subshell> subshells_;
  std::map<std::string, std::size_t> changes_, known_changes_;
  std::set<std::string> changed_in_functions_;  // "" stands for all
  bool in_function_ = false, has_local_separators_ = false;
  bool others_are_open_ = false;  // a file that the script sources may set any other variable
  bool exports_all_ = false, is_sure_ = true, runs_later_ = false;
  int line_ = 0, depth_ = 0;
  std::size_t index_ = 0, bytes_ = 0;
};

}  // namespace hookline
