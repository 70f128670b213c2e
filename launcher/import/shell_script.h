// A shell script's commands, with the variables that the script itself sets.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hookline {

/// A default that was used for a variable that the script does not set: "1" in ${NODES:-1}.
struct ShellDefault {
  int line = 0;
  std::string text, as_written;  // "1", "${NODES:-1}"
};
using ShellDefaults = std::map<std::string, ShellDefault>;  // by the variable's name

/// A word of a command as a shell would produce it. What only a shell can know stays as written: $NAME,
/// $(command).
struct ShellWord {
  std::string text;
  std::string as_written;  // before expansion: "${N:-2}"
  bool is_open = false;    // some of it stays as written
  std::string expanded;    // how to write it for a shell, if that expands it: "*.txt", "~/x", "{1..3}"
  ShellDefaults defaults;  // that its text uses
};

struct ShellCommand {
  int line = 0;                                                // of its first word, from 1
  std::vector<std::pair<std::string, ShellWord>> assignments;  // before its first word
  std::vector<ShellWord> words;
  ShellDefaults empty_defaults;           // of words that became nothing: "${MORE:-}"
  std::vector<std::string> redirections;  // ">out.log", "2>&1"
  std::vector<std::string> here_documents;
  bool into_pipe = false;           // the next command reads what it writes
  bool in_background = false;       // "&" ends it
  bool in_function = false;         // a function that may be called later
  int cut_at_line = 0;              // line that ends in a backslash and a blank, and so does not continue
  std::vector<std::string> inside;  // "for", "if": the blocks around it
};

/// A variable that is exported to the commands from index `command` on; without a value it is no longer
/// exported.
struct ShellExport {
  std::size_t command = 0;
  std::string name;
  std::optional<ShellWord> value;
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  std::vector<ShellExport> exports;                        // in their order
  std::vector<std::pair<int, std::string>> substitutions;  // $(…), `…` and <(…), with their lines
};

/// Reads a script of sh or bash without running it: quotes, continued lines, comments, here-documents,
/// arrays, $NAME, ${NAME:-default}, ${NAME[@]} and $((sums)). A variable that is set only under a condition,
/// or by a command, stays as written. Throws ImportError.
ShellScript read_shell_script(const std::string& text);

/// The names that "N *= 2", "++N" or "N = 3" assign to.
std::set<std::string> names_set_by_sum(const std::string& text);

/// Computes a shell's sum, "2 * (3 + 1)". False if it has anything but integers, + - * / % and parentheses.
bool shell_sum(const std::string& text, std::string& value);

}  // namespace hookline
