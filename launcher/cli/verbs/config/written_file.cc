#include "launcher/cli/verbs/config/written_file.h"

#include <filesystem>
#include <iostream>

#include "base/log.h"
#include "checkpoint/replace_durably.h"
#include "launcher/process/exit_code.h"

namespace hookline {

void WrittenFile::add_flags(VerbParser& parser) {
  parser.add_text("--output", file, "FILE", "The file to write, instead of standard output");
  parser.add_flag("--force", force, "Replace the file if it is there");
}

int WrittenFile::write(const std::string& text) const {
  if (file.empty()) {
    std::cout << text << std::flush;
    return kSuccess;
  }
  if (!force && std::filesystem::exists(file) && !std::filesystem::is_other(file)) {
    log::error("'" + file + "' is there already: name another file, or give --force to replace it");
    return kBadInput;
  }
  replace_durably(file, text);
  log::info("wrote " + file);
  return kSuccess;
}

}  // namespace hookline
