// One run at a time in a folder of checkpoints.
#pragma once

#include <filesystem>

namespace hookline {

/// Held while it lives, and given back when its process ends, however it does. On a file system that has no locks it is
/// nobody's.
class FolderLock {
 public:
  /// Makes the folder. Throws Error if that fails, or if another run saves into it.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace hookline
