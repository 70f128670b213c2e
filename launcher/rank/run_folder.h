// The folder of one run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace hookline {

/// The folder of an attempt, counted from 0, in that of its run.
std::string attempt_name(std::int64_t number);

/// A resolved config in both forms.
struct ResolvedTexts {
  std::string toml, json;
};

/// DIR/20260102-030405-4711/: the resolved config, and for each attempt attempt_N with a folder for each rank
/// (stdout.log, stderr.log and, if the rank reported why it failed, error.json). It stays when the run ends.
class RunFolder {
 public:
  /// Makes it below `parent` (made if need be), and points `parent`/latest to it unless a folder of that
  /// name is in the way. Throws std::filesystem::filesystem_error or std::system_error.
  RunFolder(const std::filesystem::path& parent, const ResolvedTexts& config);

  /// Makes the folders of attempt `number`, counted from 0, for `ranks` ranks from `first_rank` on, and
  /// returns the one that holds theirs. For attempts after the first, records where their metrics begin.
  /// Throws as above.
  std::filesystem::path make_attempt(std::int64_t number, int ranks, int first_rank = 0) const;

  const std::filesystem::path& path() const { return path_; }  // absolute

 private:
  std::filesystem::path path_;
};

}  // namespace hookline
