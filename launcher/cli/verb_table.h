// Every verb of the command, as data: for dispatch, help, completion and man pages.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli/verbs.h"

namespace hookline {

struct Verb {
  std::string name;   // "hooks list"
  std::string usage;  // what follows the name
  std::string summary;
  int (*run)(const Arguments&);
};

/// In the order in which help lists them.
const std::vector<Verb>& verbs();

/// nullptr if there is none.
const Verb* find_verb(const std::string& name);

/// The next words of the verbs whose names begin with `group` ("", "config "), each once.
std::vector<std::string> words_after(const std::string& group);

}  // namespace hookline
