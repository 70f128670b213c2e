// Writing a config out again: as TOML for people, as JSON for ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/schema/run_config.h"

namespace hookline {

/// A value of a config, as it is printed.
struct ShownValue {
  std::string table, name;
  OptionValue value;
  Origin origin;

  /// "ddp.comm_hook"
  std::string key() const { return table + "." + name; }
};

/// Every value, table by table; the hook's options follow [ddp].
std::vector<ShownValue> shown_values(const RunConfig& config);

/// Tables of TOML; `shown` makes the lines of each value out of its "key = value".
std::string tables_of(const std::vector<ShownValue>& values,
                      const std::function<std::string(const ShownValue&, std::string assignment)>& shown);

/// The resolved config as TOML, for people: every key with its value and, as a comment, its origin.
std::string to_toml(const RunConfig& config);

/// The values that were given explicitly, as a config file of their own.
std::string chosen_to_toml(const RunConfig& config);

/// The whole resolved config, defaults included, as one JSON object, which read_resolved() reads: {"ddp":
/// {"comm_hook": {"value": …, "origin": "file", "where": "run.toml:2:1"}}, …}. Bytes that are not UTF-8
/// become U+FFFD.
std::string to_json(const RunConfig& config);

}  // namespace hookline
