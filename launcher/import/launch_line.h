// The command in a shell script that starts another launcher: what surrounds it, its flags, its program.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "launcher/import/imported.h"
#include "launcher/import/shell_script.h"

namespace hookline {

/// A command such as `srun -N2 torchrun --nnodes=2 train.py`.
struct LaunchLine {
  std::string launcher;  // "torchrun", "accelerate launch"
  int line = 0;
  std::vector<std::pair<std::string, ShellWord>> environment;  // set by the script for it
  std::vector<ShellWord> before;                               // srun -N2
  std::vector<ShellWord> arguments;                            // --nnodes=2 train.py
  ShellDefaults empty_defaults;                                // of words that became nothing: "${MORE:-}"
  std::vector<std::string> redirections;
  bool into_pipe = false, in_background = false;
  int cut_at_line = 0;
  std::vector<std::string> inside;  // "for", "if": the blocks around it
  std::vector<std::string>
      preparations;  // commands before it that its program may need: "cd /data", "source env.sh"
};

/// Does `word` name the program, with a path or without?
bool is_program(const std::string& word, const std::string& name);

/// All of them, in the script's order. Only the first has what the script does before it. Throws ImportError
/// for a launch that is text for eval or bash -c, or that is in $(…).
std::vector<LaunchLine> launch_lines_in(const ShellScript& script);

struct LaunchFlag {
  std::string name;      // no leading dashes; FlagTable::dash between its words
  std::string value;     // empty: it has none
  std::string from;      // "--nnodes=2", as the script has it
  bool is_open = false;  // only a shell knows its value
  ShellDefaults defaults = {};
};

/// A launcher's flags, as Python's argparse takes them.
struct FlagTable {
  char dash = '-';  // between words of the names below; both are accepted
  std::set<std::string> switches, valued;
  std::map<char, std::string> short_names;  // -m
  bool may_be_short = false;                // "--nproc" for --nproc-per-node
};

struct LaunchArguments {
  std::vector<LaunchFlag> flags;
  std::vector<ShellWord> program;  // with its arguments
};

/// Words that may be flags, and that only a shell knows, are left out. Throws ImportError for a flag that
/// lacks its value.
LaunchArguments split_arguments(const LaunchLine& line, const FlagTable& table, Imported& result);

/// Takes over what stands around any launcher's flags: redirections, and variables. A variable that
/// `settings` has goes to its function there.
void take_surroundings(const LaunchLine& line,
                       const std::map<std::string, std::function<void(const LaunchFlag&)>>& settings,
                       Imported& result);
/// Takes over the program; it is a module if the launcher's own flag -m or --module was given.
void take_program(const std::vector<ShellWord>& program, bool is_module, Imported& result);

/// Takes over --rdzv-conf, "join_timeout=600,last_call_timeout=30". `name`: the flag as written.
void take_rdzv_conf(const std::string& name, const std::string& text, Imported& result);

/// Takes over what --redirects and --tee leave on the terminal. A flag that was not given has an empty name.
void take_streams(const LaunchFlag& redirects, const LaunchFlag& tee, Imported& result);

/// Adds remarks on the script's defaults for variables that the environment may set. Call it last. `key_of`:
/// the key that a flag becomes, or empty.
void tell_of_defaults(const LaunchLine& line, const LaunchArguments& arguments,
                      const std::function<std::string(const std::string&)>& key_of, Imported& result);

/// Why a flag that would become `key` is left out if only a shell knows its value.
std::string only_a_shell_knows(const std::string& key);

/// "--set launch.nnodes=N"
std::string set_flag_for(const std::string& key);

/// The address without the brackets of IPv6: "::1" for "[::1]".
std::string without_brackets(const std::string& address);

/// Is `word` a Python interpreter, by its name or path?
bool is_python(const std::string& word);

}  // namespace hookline
