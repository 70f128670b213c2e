// What a file, the environment and the command line say, before any of it is checked against a key's type.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/schema/run_config.h"
#include "config/sources/sources.h"
#include "config/toml/diagnostic.h"
#include "config/toml/source_text.h"
#include "config/toml/toml_tree.h"
#include "hooks/catalog/catalog.h"
#include "hooks/catalog/option.h"

namespace hookline {

/// One source's value for a key. A value from a file, or one that is written as TOML, has a type; any other
/// from the environment or the command line is text, which is parsed by the key's type.
struct Given {
  OriginKind layer = OriginKind::file;
  int order = 0;                          // position of its source; the value with the higher order wins
  std::string name;                       // the key, as it was spelt
  std::optional<OptionValue> value;       // unset for an array, a date or a table, and for plain text
  std::optional<std::string> typed_text;  // from environment or command line
  std::string shown;                      // the value, or what it is instead: "an array"
  Place key;
  Place place;  // of the value

  Origin origin() const { return layer == OriginKind::default_value ? Origin{} : Origin{layer, key.text()}; }
};

/// The last of a key's values is the one that counts.
struct Collected {
  std::map<std::string, std::vector<Given>> keys;  // by "table.key"
  std::vector<Given> hook_options;                 // of [ddp.comm_state_option], in order
  std::vector<Diagnostic> problems;
  int sources = 0;                           // read so far, from the weakest to the strongest
  std::vector<std::string> files, profiles;  // files read, and the profiles they define; in order, each once
  bool incomplete = false;                   // the file has syntax errors, so that keys may be missing here
};

/// What the tables of a file, or of one of its profiles, say; `root` holds the tables.
void collect_tables(const TomlNode& root, const SourceText& source, const Catalog& catalog,
                    Collected& collected);
/// `sources.resolved`: values and origins of a launch, as to_json writes them.
void collect_resolved(const std::filesystem::path& file, Collected& collected);

/// Collects the config file, the files that it includes, and the requested profile.
void collect_files(const Sources& sources, const Catalog& catalog, Collected& collected);
void collect_environment(const std::vector<std::pair<std::string, std::string>>& variables,
                         const Catalog& catalog, Collected& collected);
void collect_overrides(const std::vector<Override>& overrides, const Catalog& catalog, Collected& collected);

/// What a node of a file gives the key `name`.
Given given_by(const std::string& name, const TomlNode& node, const SourceText& source);

/// The path `name` as its source means it: relative to the config file that gives it, else to the current
/// folder.
std::filesystem::path path_given(const std::string& name, const Given& given);

/// A warning that a key has no effect, and why, at its place.
Diagnostic without_effect(const Given& given, const std::string& why);

/// The value in the row's type. Otherwise nothing, and the error is added to `problems`.
std::optional<OptionValue> checked_value(const Given& given, const OptionRow& row, const std::string& table,
                                         std::vector<Diagnostic>& problems);

/// The value of a key whose type nobody knows yet: text is read as what it looks like. Adds an error for an
/// array, a date or a table.
std::optional<OptionValue> untyped_value(const Given& given, std::vector<Diagnostic>& problems);

/// `value` as a message shows it: long texts are cut.
std::string shown_value(const OptionValue& value);

std::string lower_case(std::string text);

}  // namespace hookline
