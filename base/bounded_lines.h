// Lines of a file that a program writes: one that never ends would take all memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <istream>
#include <string>
#include <string_view>

namespace hookline {

/// Lines that were too long to be kept.
struct SkippedLines {
  std::uint64_t count = 0;
  std::uint64_t first = 0;  // its number, from 1
};

/// Cuts what comes into lines.
class BoundedLines {
 public:
  /// A line, without its newline, and at which byte it begins.
  using Take = std::function<void(const std::string& line, std::uint64_t offset)>;

  explicit BoundedLines(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Calls `take` with each line that ends in `bytes`, which follow those of the call before, and is not too long.
  void feed(std::string_view bytes, const Take& take);
  /// With a last one that has no newline, if there is one.
  void finish(const Take& take);

  const SkippedLines& skipped() const { return skipped_; }
  /// "line 3 and 2 others of 'FILE' are longer than 1 MiB each"; empty if none was skipped.
  std::string skipped_text(const std::filesystem::path& file) const;

 private:
  void add(std::string_view part);
  void end_line(const Take& take);

  std::size_t most_bytes_;
  std::string line_;
  bool is_too_long_ = false;
  std::uint64_t begin_ = 0, next_ = 0;  // bytes: where the line begins, and where what comes next does
  std::uint64_t lines_ = 0;
  SkippedLines skipped_;
};

/// The lines in the next `most_bytes` of a stream: a file of terabytes without end, which takes no disk, would keep its reader
/// busy for ever. False if there is more.
bool read_lines(std::istream& stream, BoundedLines& lines, const BoundedLines::Take& take,
                std::uint64_t most_bytes);

}  // namespace hookline
