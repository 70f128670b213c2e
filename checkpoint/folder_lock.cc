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

namespace {

constexpr const char* kClaim = "\nlaunch ";

/// What the lock's file says: its holder, and the launch for which the folder was claimed.
struct LockText {
  std::string holder, claim;
};

LockText read_lock(int descriptor) {
  char bytes[512];
  const ssize_t count = ::pread(descriptor, bytes, sizeof bytes, 0);
  if (count <= 0) return {};
  std::string text(bytes, static_cast<std::size_t>(count));
  const auto end = text.find(kClaim);
  if (end == std::string::npos) return {text, ""};
  return {text.substr(0, end), text.substr(end + std::strlen(kClaim))};
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder, const std::string& name, std::chrono::milliseconds patience)
    : folder_(folder) {
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
  const bool is_in_use = refused != 0 && errno == EWOULDBLOCK;
  const LockText before = read_lock(descriptor_);
  if (!is_in_use) {
    claimed_by_ = before.claim;
    write();  // for people only, unless there is a claim, which it leaves as it was
    return;
  }
  ::close(descriptor_);
  throw Error(what + "is in use by another run (" +
              (before.holder.empty() ? "which does not say where it is" : before.holder) +
              "): wait for its end, or name another folder");
}

bool FolderLock::write() const {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string text = "process " + std::to_string(::getpid()) + " on " + host;
  if (!claimed_by_.empty()) text += kClaim + claimed_by_;
  // Shortened only afterwards: on a full disk the bytes that the file has already can still be overwritten.
  const auto size = static_cast<ssize_t>(text.size());
  return ::pwrite(descriptor_, text.data(), text.size(), 0) == size && ::ftruncate(descriptor_, size) == 0;
}

void FolderLock::claim_for(const std::string& launch) {
  claimed_by_ = launch;
  if (!write())
    throw Error("'" + (folder_ / kFolderLockFile).string() + "' can't be written: " + std::strerror(errno));
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
