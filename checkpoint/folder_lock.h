// One run at a time in a folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace hookline {

/// In the folder that is locked.
inline constexpr const char* kFolderLockFile = ".lock";

/// Held while it lives, and given back when its process ends, however it does. On a file system that has no locks it is
/// nobody's.
class FolderLock {
 public:
  /// Makes the folder. Throws Error, in which it is `name`, if that fails, or if another run still has it after `patience`.
  FolderLock(const std::filesystem::path& folder, const std::string& name,
             std::chrono::milliseconds patience = std::chrono::milliseconds(0));
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

/// Does a run hold the lock of `folder`? Leaves nothing in the folder, which may be read-only. On a file system that has no
/// locks the answer is yes, as nobody knows.
bool is_locked(const std::filesystem::path& folder);

}  // namespace hookline
