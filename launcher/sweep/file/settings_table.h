// Reading the table [sweep] of a sweep file.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/toml/diagnostic.h"
#include "config/toml/source_text.h"
#include "config/toml/toml_tree.h"
#include "launcher/sweep/file/sweep_settings.h"

namespace hookline {

class SettingsTable {
 public:
  /// `folder`: the one that contains the file; its `config` is relative to it. What is wrong is added to
  /// `problems`.
  SettingsTable(const SourceText& source, std::filesystem::path folder, SweepRunner runner,
                std::vector<Diagnostic>& problems);

  void read(const TomlNode& table);

  /// Report what can be found wrong only once the whole file is read: keys that would have no effect, and
  /// placeholders in the program's command line without a key in `given`, which holds all keys that have a
  /// value somewhere.
  void expect_effect(bool has_baseline);
  void expect_known_placeholders(const std::set<std::string>& given);

  const SweepSettings& settings() const { return settings_; }
  bool has(const std::string& key) const { return places_.contains(key); }
  /// Of the value of a key that it has.
  Span place_of(const std::string& key) const { return places_.at(key); }

 private:
  void read_seeds(const TomlNode& node);
  void expect_program(const TomlNode& node);
  void expect_config(const TomlNode& node);
  void expect_possible_in_an_array(const std::string& name, const TomlNode& node);
  void error(Span at, std::string message, std::string note = "");

  const SourceText& source_;
  const std::filesystem::path folder_;
  const SweepRunner runner_;
  std::vector<Diagnostic>& problems_;
  std::vector<TomlNode> program_;       // its words
  std::map<std::string, Span> places_;  // of the values
  SweepSettings settings_;
};

}  // namespace hookline
