// One run at a time in a folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace hookline {

/// In the folder that is locked.
inline constexpr const char* kFolderLockFile = ".lock";

/// Holds the lock of a folder while it lives; the system releases the lock when the process ends in any way.
/// On a file system without locks it protects nothing.
class FolderLock {
 public:
  /// Creates the folder and locks it. Throws Error if it can't be created, or if another run still holds the
  /// lock after `patience`. The error calls the folder `name`.
  FolderLock(const std::filesystem::path& folder, const std::string& name,
             std::chrono::milliseconds patience = std::chrono::milliseconds(0));
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// The launch for which the folder was claimed last; empty if for none.
  const std::string& claimed_by() const { return claimed_by_; }
  /// Records in the folder that `launch`, a text without line breaks, uses it. Throws Error.
  void claim_for(const std::string& launch);

 private:
  /// Writes the lock's file: who holds it, and the claim.
  bool write() const;

  std::filesystem::path folder_;
  int descriptor_ = -1;
  std::string claimed_by_;
};

/// Does a run hold the lock of `folder`? Leaves nothing in the folder, which may be read-only. Returns true
/// on a file system without locks, where this can't be known.
bool is_locked(const std::filesystem::path& folder);

}  // namespace hookline
