// A temporary folder for the logs of ranks that a verb starts internally; needed only if they fail.
#pragma once

#include <filesystem>
#include <string>

#include "config/schema/run_config.h"

namespace hookline {

/// Made in $TMPDIR, else /tmp; removed with what is in it at the end, unless it is kept.
class LogFolder {
 public:
  /// "hookline-VERB-XXXXXX"; `owner`: whose logs they are, for an error: "the test's". Throws UsageError if
  /// it can't be made.
  LogFolder(const std::string& verb, const std::string& owner);
  ~LogFolder();
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;

  /// The ranks log into this folder, unless the config names another one.
  void take_logs(RunConfig& config);
  /// Leaves the folder there, if it has taken logs.
  void keep();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool takes_logs_ = false, is_kept_ = false;
};

}  // namespace hookline
