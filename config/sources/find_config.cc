#include "config/sources/find_config.h"

#include <cstdlib>

namespace hookline {
namespace {
namespace fs = std::filesystem;

ConfigPlace place(const fs::path& file, const std::string& what) {
  std::error_code ignored;
  // A dangling link counts as present, so that it is reported as an error.
  return {file, what, fs::exists(fs::symlink_status(file, ignored))};
}

}  // namespace

std::vector<ConfigPlace> config_places() {
  std::vector<ConfigPlace> places = {place("hookline.toml", "the current folder")};
  const fs::path below = fs::path("hookline") / "config.toml";
  const char* const xdg = std::getenv("XDG_CONFIG_HOME");
  const char* const home = std::getenv("HOME");
  if (xdg && *xdg == '/') {
    places.push_back(place(xdg / below, "XDG_CONFIG_HOME"));
  } else if (home && *home == '/') {
    places.push_back(place(home / fs::path(".config") / below, "your own, in HOME"));
  }
  return places;
}

std::optional<fs::path> find_config() {
  for (const ConfigPlace& place : config_places())
    if (place.is_there) return place.file;
  return std::nullopt;
}

}  // namespace hookline
