// Which file a run is configured by, if none is named.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hookline {

/// The folder of this user's own files: $XDG_CONFIG_HOME/hookline, or ~/.config/hookline if that is not set.
/// Nothing if neither variable has a path.
std::optional<std::filesystem::path> own_config_folder();

/// A place that is looked at.
struct ConfigPlace {
  std::filesystem::path file;
  std::string what;  // "the current folder"
  bool is_there = false;
};

/// ./hookline.toml, then config.toml in own_config_folder().
std::vector<ConfigPlace> config_places();

/// The first that is there.
std::optional<std::filesystem::path> find_config();

}  // namespace hookline
