// The keys in the tables of a sweep file, and the values that they are given.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/toml/toml_tree.h"
#include "hooks/catalog/catalog.h"
#include "launcher/sweep/file/sweep_file.h"
#include "launcher/sweep/file/sweep_ranges.h"

namespace hookline {

inline constexpr const char* kArgumentTable = "args";  // whose keys are the program's

/// A key that a file gives a value, and where.
using GivenKey = std::pair<std::string, Span>;

/// Values become texts, as one types them on a command line. What is wrong goes to `tell`, and is left out.
class SweepValues {
 public:
  SweepValues(const Catalog& catalog, TellProblem tell);

  /// "ddp.comm_hook" and its node, for each key below `table`. Options of hooks are not checked: a plug-in's
  /// are not known yet.
  std::vector<std::pair<std::string, const TomlNode*>> keys_below(const TomlNode& table) const;

  /// One value for each key below `table`. Also adds the keys to `given`, and so does
  /// dimensions().
  Assignments assignments(const TomlNode& table, std::vector<GivenKey>& given) const;

  /// The values that each key below `table` takes in turn.
  std::vector<Dimension> dimensions(const TomlNode& table, std::vector<GivenKey>& given) const;

  /// The same for one key: an array, a range or a single value.
  Dimension dimension(const std::string& key, const TomlNode& node) const;

  /// What a random search draws the key's value from: an array, a range or a single value.
  Draw draw(const std::string& key, const TomlNode& node) const;

 private:
  void add_keys_below(const TomlNode& table, const std::string& prefix,
                      std::vector<std::pair<std::string, const TomlNode*>>& found) const;
  std::vector<std::string> values_of_list(const std::string& key, const TomlNode& node) const;
  void refuse_date(const std::string& key, const TomlNode& node) const;

  std::vector<std::string> keys_;  // that the config has
  TellProblem tell_;
};

}  // namespace hookline
