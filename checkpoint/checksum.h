// Checksums of what is written: XXH3, 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace hookline {

/// Of bytes that come piece by piece. Source: github.com/Cyan4973/xxHash, XXH3_64bits.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  void add(const void* data, std::size_t bytes);
  /// 16 hexadecimal digits, as `xxhsum -H3` prints them.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string checksum_of(const void* data, std::size_t bytes);

/// Throws Error, naming the file, if it can't be read.
std::string checksum_of_file(const std::filesystem::path& file);

}  // namespace hookline
