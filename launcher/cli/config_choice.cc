#include "launcher/cli/config_choice.h"

#include "config/find_config.h"
#include "hooks/folder_access.h"
#include "hooks/log.h"

namespace hookline {

void ConfigChoice::add_file_flag(VerbParser& parser) {
  parser.add_text("--config", file, "FILE",
                  "TOML file to read; else ./hookline.toml, or one of your own: config where");
}

void ConfigChoice::add_profile_flag(VerbParser& parser) {
  parser.add_text("--profile", profile, "NAME", "Put the values of [profile.NAME] over the file's others");
}

Sources ConfigChoice::sources() const {
  Sources sources;
  sources.file = file.empty() ? find_config() : std::optional<std::filesystem::path>(file);
  if (!profile.empty()) sources.profile = profile;
  sources.environment = hookline_environment();
  return sources;
}

void tell_found_config(const ConfigChoice& choice, const Sources& sources) {
  if (!choice.file.empty()) return;
  for (const ConfigPlace& place : config_places()) {
    if (place.is_there) break;
    if (const std::string problem = access_problem(place.file); !problem.empty())
      log::warning("can't look for a config: " + problem);
  }
  if (sources.file) log::info("configured by " + sources.file->string());
}

}  // namespace hookline
