// Which file a run is configured by, if none is named.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hookline {

/// A place that is looked at.
struct ConfigPlace {
  std::filesystem::path file;
  std::string what;  // "the current folder"
  bool is_there = false;
};

/// ./hookline.toml, then $XDG_CONFIG_HOME/hookline/config.toml (~/.config, if that is not set).
std::vector<ConfigPlace> config_places();

/// The first that is there.
std::optional<std::filesystem::path> find_config();

}  // namespace hookline
