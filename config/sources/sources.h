// Where the values of a config come from: files, the environment and the command line.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hookline {

/// A value given on the command line: `--set ddp.comm_hook=fp16`, or a flag of its own.
struct Override {
  std::string key;    // "ddp.comm_hook", "ddp.comm_state_option.matrix_approximation_rank"
  std::string value;  // as typed; read as the key's type (true, 2, fp16 …)
  std::string where;  // how the user gave it, for messages: "--comm-hook", "--set ddp.comm_hook"
};

/// The keys that `override` gives: its own, or those of the table that it spells out, as in `--set
/// 'ddp={comm_hook="fp16"}'`.
std::vector<std::string> keys_of(const Override& override);

struct Sources {
  /// What the launcher has resolved, as to_json writes it; no other source is then read.
  std::optional<std::filesystem::path> resolved = {};
  std::optional<std::filesystem::path> file;
  std::optional<std::string> file_text = {};  // used instead of the contents of `file`, to check an edit
  std::optional<std::string> profile;         // [profile.NAME] of the file; else HOOKLINE_PROFILE's
  std::vector<std::pair<std::string, std::string>> environment;  // only HOOKLINE_* variables matter
  std::vector<Override> overrides;
  /// The program is a script, whose hooks can't be read before it runs: `comm_hook = "program:NAME"` and its
  /// options are then left to the rank.
  bool allow_program_hooks = true;
  /// False for `hookline test`, which makes the report that the key `link` of [ddp.auto] may name.
  bool reads_link_report = true;
  /// What the program was built with, as read_build says it; empty: not known, and not compared with
  /// plug-ins.
  std::string program_build = {};
};

/// Is `variable` one that sets a key of a config, or several of a table?
bool sets_keys(const std::string& variable);

/// The process's HOOKLINE_* variables, for Sources::environment.
std::vector<std::pair<std::string, std::string>> hookline_environment();

}  // namespace hookline
