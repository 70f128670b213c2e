#include "launcher/rank/run_folder.h"

#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <fstream>
#include <system_error>

#include "base/log.h"
#include "base/text/time_text.h"
#include "config/run_files.h"

namespace hookline {
namespace fs = std::filesystem;

namespace {

void point_latest_to(const fs::path& folder) {
  const fs::path link = folder.parent_path() / "latest";
  // Made under another name and then renamed, so that runs that start at the same time never find it missing.
  const fs::path fresh = folder.parent_path() / (".latest-" + std::to_string(getpid()));
  std::error_code error;
  fs::create_directory_symlink(folder.filename(), fresh, error);
  if (!error) fs::rename(fresh, link, error);
  if (error) {
    std::error_code ignored;
    fs::remove(fresh, ignored);
  }
}

void write_text(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw std::system_error(errno, std::generic_category(), "can't write '" + file.string() + "'");
}

/// An attempt repeats the steps since the last checkpoint: readers of the metrics must know where it begins.
void note_start_of_metrics(const fs::path& run, const fs::path& attempt) {
  std::error_code none;
  const auto size = fs::file_size(run / kMetricsFile, none);
  const fs::path file = attempt / kMetricsStartFile;
  std::ofstream out(file, std::ios::binary);
  out << (none ? 0 : size) << "\n" << std::flush;
  if (!out)
    log::warning("can't write '" + file.string() +
                 "': steps that this attempt repeats count twice in reports");
}

}  // namespace

std::string attempt_name(std::int64_t number) { return "attempt_" + std::to_string(number); }

RunFolder::RunFolder(const fs::path& parent, const ResolvedTexts& config) {
  const fs::path absolute_parent = fs::absolute(parent).lexically_normal();
  fs::create_directories(absolute_parent);
  const std::string name = time_name(std::time(nullptr)) + "-" + std::to_string(getpid());
  // Process ids repeat: between containers that share a file system, for one.
  for (int attempt = 1;; ++attempt) {
    path_ = absolute_parent / (attempt == 1 ? name : name + "-" + std::to_string(attempt));
    if (fs::create_directory(path_)) break;
  }
  write_text(path_ / kResolvedForPeople, config.toml);
  write_text(path_ / kResolvedForRanks, config.json);
  point_latest_to(path_);
}

fs::path RunFolder::make_attempt(std::int64_t number, int ranks, int first_rank) const {
  const fs::path folder = path_ / attempt_name(number);
  fs::create_directory(folder);
  if (number > 0) note_start_of_metrics(path_, folder);
  for (int rank = first_rank; rank < first_rank + ranks; ++rank)
    fs::create_directory(folder / std::to_string(rank));
  return folder;
}

}  // namespace hookline
