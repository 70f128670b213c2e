// hookline config where: which file a launch would read, and why.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/folder_access.h"
#include "base/text/printable.h"
#include "config/sources/find_config.h"
#include "launcher/cli/config_choice.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/cli/verbs.h"
#include "launcher/process/exit_code.h"

namespace hookline {

int config_where(const Arguments& arguments) {
  bool json = false;
  VerbParser parser(
      "hookline config where [flags]",
      "Show which config file a launch without --config would read here, and where it looks for one. Only "
      "the first that exists is read.",
      "hookline config where");
  parser.add_flag("--json", json, "Print JSON");
  if (!parser.parse(arguments)) return kSuccess;
  parser.expect_plain("", 0, 0);

  warn_of_config_for_ranks({}, "with hookline launch --config FILE");
  bool is_found = false;
  nlohmann::ordered_json places = nlohmann::ordered_json::array();
  std::string text;
  for (const ConfigPlace& place : config_places()) {
    const bool is_hidden = !place.is_there && !access_problem(place.file).empty();
    std::error_code none;
    const std::string state = is_hidden         ? "not read, since this user may not enter its folder"
                              : !place.is_there ? "not there"
                              : is_found        ? "there, and not read"
                              : std::filesystem::exists(place.file, none) || none
                                  ? "read"
                                  : "a link to a file that is not there, which hookline launch refuses";
    is_found = is_found || place.is_there;
    text += printable(place.file.string()) + " (" + place.what + "): " + state + "\n";
    places.push_back({{"file", place.file.string()}, {"place", place.what}, {"state", state}});
  }
  if (!is_found)
    text +=
        "no file is read: all values have their defaults, unless the environment or the command line sets "
        "them\n";
  std::cout << (json ? places.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n" : text)
            << std::flush;
  return kSuccess;
}

}  // namespace hookline
