// Accelerate's settings, from its YAML and from flags of `accelerate launch` alike.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "launcher/import/imported.h"

namespace hookline {

struct AccelerateConfig {
  YAML::Node root;  // a mapping
  /// Keys that flags have set, "num_machines" or "fsdp_config.fsdp_version", and the flags as written.
  std::map<std::string, std::string> flags;
  std::set<std::string> unknown;  // keys that flags set to a value that only a shell knows
};

/// Parses one document. Throws ImportError, also for a key that occurs twice in a mapping.
YAML::Node accelerate_yaml(const std::string& text);

/// The node's text as the file has it.
std::string text_of(const YAML::Node& node);
/// A boolean as PyYAML reads it, which follows YAML 1.1; nothing for any other value.
std::optional<bool> boolean_of(const YAML::Node& node);
bool is_off(const YAML::Node& node);
/// The value that Python reads, as TOML writes it.
std::string value_of(const YAML::Node& node);
/// Is there no value, or an empty one?
bool is_nothing(const YAML::Node& node);

/// Calls `read`, and turns what yaml-cpp throws into an ImportError.
void explaining_yaml_errors(const std::function<void()>& read);

/// Takes over a key that hookline has itself: "ddp.comm_hook", "ddp.comm_state_option.start_powerSGD_iter",
/// or a table, "ddp". A value that the key can't have is left out. `name`: the key's name in the file;
/// `flag`: the flag that set it, or empty. False if hookline has no such key or table.
bool take_own_key(const std::string& key, const YAML::Node& node, const std::string& name,
                  const std::string& flag, Imported& result);

/// Adds the settings of `config` to `result`. Throws ImportError.
void take_accelerate_config(const AccelerateConfig& config, Imported& result);

}  // namespace hookline
