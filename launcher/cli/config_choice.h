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

/// Says which file was found, if none was named.
void tell_found_config(const ConfigChoice& choice, const Sources& sources);

}  // namespace hookline
