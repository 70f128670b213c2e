// A file to append to, which reports what it could not write.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace hookline {

/// Opened at its first use. Not thread-safe.
class AppendFile {
 public:
  explicit AppendFile(std::filesystem::path path) : path_(std::move(path)) {}
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Appends `bytes`. Returns how many it wrote: all, unless `problem` says why not.
  std::size_t append(std::string_view bytes, std::string& problem);
  /// Removes the last `count` bytes. False if it can't.
  bool take_back(std::size_t count);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace hookline
