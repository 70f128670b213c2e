// A file that a verb makes: --output FILE, else standard output.
#pragma once

#include <string>

#include "launcher/cli/verb_parser.h"

namespace hookline {

struct WrittenFile {
  std::string file;
  bool force = false;

  /// Adds --output and --force.
  void add_flags(VerbParser& parser);

  /// An exit code. A file that is there is refused without --force. Throws Error.
  int write(const std::string& text) const;
};

}  // namespace hookline
