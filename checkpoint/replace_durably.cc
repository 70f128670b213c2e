#include "checkpoint/replace_durably.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/regular_file.h"
#include "checkpoint/durable_file.h"

namespace hookline {
namespace fs = std::filesystem;
namespace {

/// Whatever is neither a regular file nor a folder: a device, a pipe.
bool is_special(const fs::path& file) {
  struct stat status {};
  return stat(file.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

fs::path behind_link(const fs::path& file) {
  std::error_code error;
  return fs::is_symlink(file, error) ? fs::weakly_canonical(file, error) : file;
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

void write_into(const fs::path& file, const std::string& text) {
  // O_NONBLOCK: without it, opening a pipe that nobody reads would block forever.
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  std::string problem;
  if (descriptor < 0) {
    problem = errno == ENXIO ? "nobody reads from it" : std::strerror(errno);
  } else {
    ::fcntl(descriptor, F_SETFL, 0);
    problem = write_and_close(descriptor, text);
  }
  if (!problem.empty())
    throw Error("can't write to '" + file.string() + "', which is not a regular file: " + problem);
}

}  // namespace

void replace_durably(const fs::path& file, const std::string& text) {
  if (is_special(file)) return write_into(file, text);
  std::error_code error;
  const fs::path target = behind_link(file), folder = folder_of(target);
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
    throw Error("can't write '" + file.string() + "', and left it unchanged: " + problem.what());
  }
}

std::string replace_problem(const fs::path& file) {
  const std::string name = "'" + file.string() + "' can't be written: ";
  std::error_code error;
  if (file.empty()) return name + "its name is empty";
  if (is_special(file)) return "";
  const fs::path target = behind_link(file), folder = folder_of(target);
  if (fs::is_directory(target, error)) return name + "it is a folder";
  if (!fs::is_directory(folder, error)) return name + "there is no folder '" + folder.string() + "'";
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return name + "no file can be made in the folder '" + folder.string() + "' (" + std::strerror(errno) +
           ")";
  return "";
}

}  // namespace hookline
