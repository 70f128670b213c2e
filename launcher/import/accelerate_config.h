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
  /// Keys that flags have set, "num_machines" or "fsdp_config.fsdp_version", and how the command line has them.
  std::map<std::string, std::string> flags;
  std::set<std::string> unknown;  // keys that flags set to what only a shell knows
};

/// Of one document, whose mappings have no key twice. Throws ImportError.
YAML::Node accelerate_yaml(const std::string& text);

/// As the file has it.
std::string text_of(const YAML::Node& node);
/// As PyYAML reads it, which knows YAML 1.1; nothing for any other value.
std::optional<bool> boolean_of(const YAML::Node& node);
bool is_off(const YAML::Node& node);
/// As TOML writes what Python reads.
std::string value_of(const YAML::Node& node);
/// Is there no value, or an empty one?
bool is_nothing(const YAML::Node& node);

/// Calls `read`, and turns what yaml-cpp throws into an ImportError.
void explaining_yaml_errors(const std::function<void()>& read);

/// Takes over a key that hookline has itself: "ddp.comm_hook", "ddp.comm_state_option.start_powerSGD_iter", or a table, "ddp".
/// What can't be one of its values is left out. `name`: how the file calls it; `flag`: the flag that has set it, else empty.
/// False: hookline has no such key or table.
bool take_own_key(const std::string& key, const YAML::Node& node, const std::string& name,
                  const std::string& flag, Imported& result);

/// Adds to `result` what it comes to. Throws ImportError.
void take_accelerate_config(const AccelerateConfig& config, Imported& result);

}  // namespace hookline
