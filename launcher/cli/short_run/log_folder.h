// A temporary folder for the logs of ranks that a verb starts internally; needed only if they fail.
#pragma once

#include <filesystem>
#include <string>

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

  void keep() { is_kept_ = true; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool is_kept_ = false;
};

}  // namespace hookline
