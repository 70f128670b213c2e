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
  std::string key;    ///< "ddp.comm_hook", "ddp.comm_state_option.matrix_approximation_rank"
  std::string value;  ///< As typed; read as the key's type (true, 2, fp16 …).
  std::string where;  ///< How the user gave it, for messages: `--comm-hook`, `--set ddp.comm_hook`.
};

/// The keys that `override` gives: its own, or those of the table that it spells out, as in
/// `--set ddp={comm_hook="fp16"}`.
std::vector<std::string> keys_of(const Override& override);

/// Everything that resolve() makes a config from; the later of file, environment and command line wins.
struct Sources {
  /// The file of a config that the launcher has resolved; no other source is then read.
  std::optional<std::filesystem::path> resolved = {};
  std::optional<std::filesystem::path> file;  ///< The config file; unset: none is read.
  std::optional<std::string> file_text = {};  ///< Used instead of the contents of `file`, to check an edit.
  std::optional<std::string> profile;         ///< [profile.NAME] of the file; unset: HOOKLINE_PROFILE's.
  /// Variables by name; only those that begin with HOOKLINE_ matter.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<Override> overrides;  ///< From the command line; the last one of a key wins.
  /// True if the program's hooks may be unknown until it runs, as those of a script are: `comm_hook =
  /// "program:NAME"` and its options are then left to the rank.
  bool allow_program_hooks = true;
  /// False for `hookline test`, which makes the report that the key `link` of [ddp.auto] may name.
  bool reads_link_report = true;
  /// What the program was built with, as read_build says it; empty: not known, and not compared with
  /// plug-ins.
  std::string program_build = {};
};

/// Is `variable` one that sets a key of a config, or several of a table?
bool sets_keys(const std::string& variable);

/// The process's HOOKLINE_* variables, sorted by name, for Sources::environment.
std::vector<std::pair<std::string, std::string>> hookline_environment();

}  // namespace hookline
