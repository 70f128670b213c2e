#include "checkpoint/replace_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/durable_file.h"
#include "hooks/error.h"

namespace hookline {
namespace fs = std::filesystem;

void replace_file(const fs::path& file, const std::string& text) {
  std::error_code error;
  const fs::path target = fs::is_symlink(file, error) ? fs::weakly_canonical(file, error) : file;
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  const fs::path aside =
      folder / ("." + target.filename().string() + ".hookline-" + std::to_string(getpid()));
  try {
    write_durably(aside, text);
    struct stat former {};
    if (stat(target.c_str(), &former) == 0) chmod(aside.c_str(), former.st_mode & 07777);
    fs::rename(aside, target);
    sync_folder(folder);
  } catch (const std::exception& problem) {
    fs::remove(aside, error);
    throw Error("can't write '" + file.string() + "', which is as it was: " + problem.what());
  }
}

}  // namespace hookline
