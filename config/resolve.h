// From file, environment and command line to one checked RunConfig.
#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "config/schema/run_config.h"
#include "config/toml/diagnostic.h"
#include "hooks/catalog/catalog.h"

namespace hookline {

/// A value given on the command line: `--set ddp.comm_hook=fp16`, or a flag of its own.
struct Override {
  std::string key;    // "ddp.comm_hook", "ddp.comm_state_option.matrix_approximation_rank"
  std::string value;  // as typed; read as the key's type (true, 2, fp16 …)
  std::string where;  // how the user gave it, for messages: "--comm-hook", "--set ddp.comm_hook"
};

/// The keys that `override` gives: its own, or those of the table that it spells out, as in `--set 'ddp={comm_hook="fp16"}'`.
std::vector<std::string> keys_of(const Override& override);

struct Sources {
  std::optional<std::filesystem::path> file;
  std::optional<std::string> file_text = {};  // used instead of the contents of `file`, to check an edit
  std::optional<std::string> profile;         // [profile.NAME] of the file; else HOOKLINE_PROFILE's
  std::vector<std::pair<std::string, std::string>> environment;  // HOOKLINE_* variables only matter
  std::vector<Override> overrides;
  /// The program is a script, whose hooks can't be read before it runs: `comm_hook = "program:NAME"` and its
  /// options are then left to the rank.
  bool allow_program_hooks = true;
  /// What the program was built with, as read_build says it; empty: not known, and not compared with plug-ins.
  std::string program_build = {};
};

/// The outcome: `config` is meaningful only if ok().
struct Resolution {
  RunConfig config;
  std::vector<Diagnostic>
      diagnostics;                    // errors and warnings, in the order of the file, then the other sources
  std::vector<std::string> files;     // the files read: included files first, the named file last
  std::vector<std::string> profiles;  // the profiles that these files define

  bool ok() const;
  /// Every diagnostic, rendered one after the other.
  std::string report() const;
};

/// Reads, merges and validates; reports every problem at once. Never throws for bad input. The hooks of the plug-ins
/// that the config names are added to `catalog`'s; a plug-in's path is relative to the file that names it, elsewhere to
/// the current folder.
Resolution resolve(const Sources& sources, const Catalog& catalog);

/// A config that can't be used; what() is the whole report.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads the file that the launcher wrote (print.h, to_toml): no environment is applied again, and the
/// origins are those of the launch. Throws ConfigError. `catalog` must hold the program's own hooks.
RunConfig read_resolved(const std::filesystem::path& file, const Catalog& catalog);

/// Is `variable` one that sets a key of a config, or several of a table?
bool sets_keys(const std::string& variable);

/// The process's HOOKLINE_* variables, for Sources::environment.
std::vector<std::pair<std::string, std::string>> hookline_environment();

}  // namespace hookline
