// The folder of one run.
#pragma once

#include <filesystem>
#include <string>

namespace hookline {

/// DIR/20260102-030405-4711/, with resolved.toml and a folder for each rank (stdout.log, stderr.log). Stays
/// when the run ends.
class RunFolder {
 public:
  /// Makes it with its rank folders, below `parent` (made if need be), and points `parent`/latest to it if
  /// nothing but a link of that name is in the way. Throws std::filesystem::filesystem_error or
  /// std::system_error.
  RunFolder(const std::filesystem::path& parent, int ranks, const std::string& resolved_config);

  const std::filesystem::path& path() const { return path_; }  // absolute
  std::filesystem::path of_rank(int rank) const { return path_ / std::to_string(rank); }

 private:
  std::filesystem::path path_;
};

}  // namespace hookline
