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

const char* const kXdg = "XDG_CONFIG_HOME";

bool has_path(const char* variable) {
  const char* const value = std::getenv(variable);
  return value && *value == '/';
}

}  // namespace

std::optional<fs::path> own_config_folder() {
  if (has_path(kXdg)) return fs::path(std::getenv(kXdg)) / "hookline";
  if (has_path("HOME")) return fs::path(std::getenv("HOME")) / ".config" / "hookline";
  return std::nullopt;
}

std::vector<ConfigPlace> config_places() {
  std::vector<ConfigPlace> places = {place("hookline.toml", "the current folder")};
  if (const auto folder = own_config_folder())
    places.push_back(place(*folder / "config.toml", has_path(kXdg) ? kXdg : "your own, in HOME"));
  return places;
}

std::optional<fs::path> find_config() {
  for (const ConfigPlace& place : config_places())
    if (place.is_there) return place.file;
  return std::nullopt;
}

}  // namespace hookline
