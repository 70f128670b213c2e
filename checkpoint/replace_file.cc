#include "checkpoint/replace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "checkpoint/durable_file.h"
#include "hooks/error.h"
#include "hooks/regular_file.h"

namespace hookline {
namespace fs = std::filesystem;
namespace {

/// Whatever is neither a regular file nor a folder: a device, a pipe.
bool is_special(const fs::path& file) {
  struct stat status {};
  return stat(file.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

void write_into(const fs::path& file, const std::string& text) {
  // A pipe that nobody reads from would hold the opening up for ever.
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  std::string problem;
  if (descriptor < 0) {
    problem = errno == ENXIO ? "nobody reads from it" : std::strerror(errno);
  } else {
    ::fcntl(descriptor, F_SETFL, 0);
    problem = write_and_close(descriptor, text);
  }
  if (!problem.empty())
    throw Error("can't write to '" + file.string() + "', which is no regular file: " + problem);
}

}  // namespace

void replace_file(const fs::path& file, const std::string& text) {
  if (is_special(file)) return write_into(file, text);
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
