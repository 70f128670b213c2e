#include "launcher/cli/config_choice.h"

#include <cstdlib>

#include "base/folder_access.h"
#include "base/log.h"
#include "config/sources/find_config.h"

namespace hookline {

void ConfigChoice::add_file_flag(VerbParser& parser) {
  parser.add_text("--config", file, "FILE",
                  "TOML file to read; else the one that 'hookline config where' names");
}

void ConfigChoice::add_profile_flag(VerbParser& parser) {
  parser.add_text("--profile", profile, "NAME",
                  "Let the values of [profile.NAME] override the file's other values");
}

Sources ConfigChoice::sources() const {
  Sources sources;
  sources.file = file.empty() ? find_config() : std::optional<std::filesystem::path>(file);
  if (!profile.empty()) sources.profile = profile;
  sources.environment = hookline_environment();
  return sources;
}

void warn_of_config_for_ranks(const ConfigChoice& choice, const std::string& how_to_name) {
  const auto is_set = [](const char* name) {
    const char* const value = std::getenv(name);
    return value && *value;
  };
  if (!choice.file.empty() || !is_set("HOOKLINE_CONFIG") || is_set("HOOKLINE_RUN_DIR") || is_set("RANK"))
    return;
  log::warning("HOOKLINE_CONFIG is set, but only ranks read it: name a config " + how_to_name);
}

void tell_found_config(const ConfigChoice& choice, const Sources& sources, const std::string& how_to_name) {
  warn_of_config_for_ranks(choice, how_to_name);
  if (!choice.file.empty()) return;
  for (const ConfigPlace& place : config_places()) {
    if (place.is_there) break;
    if (const std::string problem = access_problem(place.file); !problem.empty())
      log::warning("can't look for a config: " + problem);
  }
  if (sources.file) log::info("configured by " + sources.file->string());
}

}  // namespace hookline
