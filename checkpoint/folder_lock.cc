#include "checkpoint/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/folder_access.h"
#include "base/regular_file.h"

namespace hookline {
namespace fs = std::filesystem;

FolderLock::FolderLock(const fs::path& folder, const std::string& name, std::chrono::milliseconds patience) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (const std::string access = access_problem(folder); !access.empty()) throw Error(name + ": " + access);
  if (!error && !fs::is_directory(folder)) error = std::make_error_code(std::errc::not_a_directory);
  const std::string what = name + " '" + folder.string() + "' ";
  if (error) throw Error(what + "can't be made: " + error.message() + ": name another folder");
  const RegularFile opened = open_regular(folder / kFolderLockFile, O_RDWR | O_CREAT, 0666);
  if (opened.descriptor < 0)
    throw Error(what + "can't be written to: " + opened.why + ": name another folder");
  descriptor_ = opened.descriptor;
  const auto give_up = std::chrono::steady_clock::now() + patience;
  int refused = ::flock(descriptor_, LOCK_EX | LOCK_NB);
  while (refused != 0 && errno == EWOULDBLOCK && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    refused = ::flock(descriptor_, LOCK_EX | LOCK_NB);
  }
  if (refused == 0) {
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    const std::string holder = "process " + std::to_string(::getpid()) + " on " + host;
    if (::ftruncate(descriptor_, 0) == 0) [[maybe_unused]]
      const ssize_t written = ::pwrite(descriptor_, holder.data(), holder.size(), 0);
    return;
  }
  if (errno != EWOULDBLOCK) return;
  char holder[512] = "";
  const ssize_t count = ::pread(descriptor_, holder, sizeof holder - 1, 0);
  ::close(descriptor_);
  throw Error(what + "is in use by another run (" + (count > 0 ? holder : "which does not say where it is") +
              "): wait for its end, or name another folder");
}

bool is_locked(const fs::path& folder) {
  std::error_code none;
  const RegularFile opened = open_regular(folder / kFolderLockFile, O_RDONLY);
  // Only a regular file can be a run's lock. One that may not be opened counts as locked.
  if (opened.descriptor < 0) return opened.problem == FileProblem::refused && fs::is_directory(folder, none);
  const bool is_free = ::flock(opened.descriptor, LOCK_SH | LOCK_NB) == 0;
  ::close(opened.descriptor);
  return !is_free;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace hookline
