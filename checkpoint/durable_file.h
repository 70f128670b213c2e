// Writes files that have reached the disk when the call returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "checkpoint/checksum.h"

namespace hookline {

/// What a file held when it was written.
struct FileRecord {
  std::string name;  // without its folder
  std::uint64_t bytes = 0;
  std::string checksum;
};

/// A file that is written from its start to its end. Every error is an Error that names the file and the
/// reason, "No space left on device" among them; what was written until then stays where it is.
class DurableFile {
 public:
  explicit DurableFile(std::filesystem::path file);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(const void* data, std::size_t bytes);

  /// The last call: returns when the disk has it all.
  FileRecord finish();

 private:
  [[noreturn]] void fail(int error_number) const;

  std::filesystem::path file_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
  Checksum checksum_;
};

FileRecord write_durably(const std::filesystem::path& file, std::string_view text);

/// Returns when the disk knows the names in `folder`. Throws Error.
void sync_folder(const std::filesystem::path& folder);

}  // namespace hookline
