// A script's variables, as far as they are known without running it, and what words with them come to.
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

  /// The command whose words come next. `is_sure`: it happens once, whatever the script finds. `runs_later`: in a function or
  /// a loop, which may run after what follows it. `in_function`: each call of one repeats its changes.
  void begin_command(int line, std::size_t index, bool is_sure, bool runs_later, bool in_function);

  void assign(const ShellAssignment& assignment);
  void unset(const std::string& name);

  /// From here on a shell alone can tell its value; or that of any.
  void forget(const std::string& name);
  void forget_all();
  /// The same of whatever the sum assigns to: "N++", "A = B + 1".
  void forget_assigned_in(const std::string& sum);

  void mark_exported(const std::string& name, bool is_exported = true);
  void export_all_assigned(bool does) { exports_all_ = does; }
  /// What any function changes is no longer known.
  void call_functions();

  /// What is assigned to it is no longer its value, unless that is digits: `declare -i`.
  void mark_converted(const std::string& name);

  /// `local IFS=,` splits words in another way until the function's end.
  void begin_local_separators() { has_local_separators_ = true; }
  void end_local_separators() { has_local_separators_ = false; }

  /// From here on what is assigned to it is another variable's value, whose name only a shell knows: `declare -n`.
  void mark_reference(const std::string& name);

  /// What happens to variables in between has no effect after it.
  void begin_subshell() { subshells_.push_back({former_.size(), others_are_open_}); }
  void end_subshell(std::size_t index);  // of the next command

  /// Changes of what the script exports, in their order.
  std::vector<ShellExport> take_exports() { return std::move(exports_); }
  /// Commands in $(…), `…` and <(…), with their lines.
  std::vector<std::pair<int, std::string>> take_substitutions() { return std::move(substitutions_); }

  /// By name, the last command that changes it; "" stands for all.
  std::map<std::string, std::size_t> take_changes() { return std::move(changes_); }
  void know_changes(std::map<std::string, std::size_t> changes) { known_changes_ = std::move(changes); }

  /// A word that is not split: an assignment's value.
  ShellWord one_word(const RawShellWord& raw);

  /// The words that one of a command becomes. The result: defaults that left no word.
  ShellDefaults add_fields(const RawShellWord& raw, std::vector<ShellWord>& to);

 private:
  struct Value {
    std::vector<std::string> texts;  // several: of an array; none: it is unset
    bool is_open = false;            // it is not known
    ShellDefaults defaults = {};     // that it is made of
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
  std::vector<std::pair<std::string, Variable>> former_;  // that subshells have changed
  struct Subshell {
    std::size_t begin = 0;  // of what it has changed
    bool others_are_open = false;
  };
  std::vector<Subshell> subshells_;
  std::map<std::string, std::size_t> changes_, known_changes_;
  std::set<std::string> changed_in_functions_;  // "" stands for all
  bool in_function_ = false, has_local_separators_ = false;
  bool others_are_open_ = false;  // those that the script does not set may be set by a file that it reads
  bool exports_all_ = false, is_sure_ = true, runs_later_ = false;
  int line_ = 0, depth_ = 0;
  std::size_t index_ = 0, bytes_ = 0;
};

}  // namespace hookline
