#include "launcher/cli/short_run/log_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "config/schema/origin_text.h"
#include "launcher/cli/verb_parser.h"
#include "launcher/process/machine.h"

namespace hookline {
namespace fs = std::filesystem;

LogFolder::LogFolder(const std::string& verb, const std::string& owner) {
  const fs::path parent = environment_variable("TMPDIR").value_or("/tmp");
  std::string name = (parent / ("hookline-" + verb + "-XXXXXX")).string();
  if (!mkdtemp(name.data()))
    throw UsageError("no folder for " + owner + " logs can be made in '" + parent.string() +
                     "' (TMPDIR): " + std::strerror(errno) + "; choose another with TMPDIR");
  path_ = fs::absolute(name);
}

LogFolder::~LogFolder() {
  std::error_code stays;
  if (!is_kept_) fs::remove_all(path_, stays);
}

void LogFolder::take_logs(RunConfig& config) {
  takes_logs_ = !is_given(config, "logging.dir");
  if (takes_logs_) config.logging.dir = path_.string();
}

void LogFolder::keep() { is_kept_ = takes_logs_ && !fs::is_empty(path_); }

}  // namespace hookline
