// Which config a verb works with: --config and --profile, or where one is found.
#pragma once

#include <string>

#include "config/resolve.h"
#include "launcher/cli/verb_parser.h"

namespace hookline {

struct ConfigChoice {
  std::string file;     // empty: where find_config finds one, if it does
  std::string profile;  // empty: that of the environment, if any

  /// Adds --config FILE.
  void add_file_flag(VerbParser& parser);
  /// Adds --profile NAME.
  void add_profile_flag(VerbParser& parser);

  /// File, profile and environment, as a launch reads them.
  Sources sources() const;
};

/// Says which file was found, if none was named. `how_to_name`: how this verb takes the name of one.
void tell_found_config(const ConfigChoice& choice, const Sources& sources,
                       const std::string& how_to_name = "with --config FILE");

/// Warns, if no config was named, that a HOOKLINE_CONFIG set by the user does not choose one. Does not warn
/// inside a rank, where the variable comes from another launcher.
void warn_of_config_for_ranks(const ConfigChoice& choice,
                              const std::string& how_to_name = "with --config FILE");

}  // namespace hookline
