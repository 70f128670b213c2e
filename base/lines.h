// Splits text into lines: a text in memory, or a stream with lines of limited length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <istream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace hookline {

/// The lines of `text`, without their newlines. The views last as long as the text.
std::vector<std::string_view> lines_of(std::string_view text);

/// `text` without white space at its ends.
std::string_view trimmed(std::string_view text);

/// What follows the last newline: all of a text that has none.
std::string last_line(const std::string& text);

/// Lines that were too long to be kept.
struct SkippedLines {
  std::uint64_t count = 0;
  std::uint64_t first = 0;  // its number, from 1
};

/// Splits a stream of bytes into lines, for what other programs write: a line without an end would use up all
/// memory. For records that a program reads: a part of one is useless, so a line that is too long is skipped
/// and counted, and a carriage return is a character like any other. LineSplitter of launcher/output, for
/// what people watch, does the opposite in both, so a single class would just be two in one.
class BoundedLines {
 public:
  /// Receives a line, without its newline, and the offset of its first byte.
  using Take = std::function<void(const std::string& line, std::uint64_t offset)>;

  /// For lines of a program of our own, which limits them itself.
  static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

  explicit BoundedLines(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Appends `bytes` to those of earlier calls, and calls `take` for each line that they complete. Lines that
  /// are too long are skipped.
  void feed(std::string_view bytes, const Take& take);
  /// Call it after the last bytes: passes on a last line that has no newline, if there is one.
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
  std::uint64_t begin_ = 0, next_ = 0;  // offsets of the current line's first byte and of the next byte fed
  std::uint64_t lines_ = 0;
  SkippedLines skipped_;
};

/// Feeds at most the next `most_bytes` of `stream` to `lines`; returns false if the stream has more. Without
/// a limit, a sparse file of terabytes, which takes no disk space, would keep its reader busy forever.
bool read_lines(std::istream& stream, BoundedLines& lines, const BoundedLines::Take& take,
                std::uint64_t most_bytes);

}  // namespace hookline
