// Splits what a rank writes into lines.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace hookline {

/// For one stream of one rank. Holds a line back until it is complete, so that lines of several ranks never
/// mix. Splits a line that is longer than `longest_bytes` into pieces of that size, each a line of its own.
/// Leaves out what a carriage return overwrites, as in a progress bar. BoundedLines of base/lines.h is for
/// records that a program reads: it skips a line that is too long, and keeps carriage returns. People,
/// however, need to see all of a long line, and a progress bar before its line ends.
class LineSplitter {
 public:
  /// Receives a line without its newline.
  using Take = std::function<void(std::string_view line)>;

  explicit LineSplitter(std::size_t longest_bytes = 64 * 1024) : longest_bytes_(longest_bytes) {}

  /// Calls `take` for each line that `bytes` completes.
  void feed(std::string_view bytes, const Take& take);

  /// True if a carriage return ended a version of the unfinished line that take_overwritten() has not
  /// returned.
  bool has_overwritten() const { return has_overwritten_; }
  /// That version.
  std::string take_overwritten();

  /// What is held back.
  const std::string& unfinished() const { return held_; }
  /// Call it after the last bytes: passes on the unfinished line, if there is one.
  void finish(const Take& take);

 private:
  std::size_t longest_bytes_;
  std::string held_;
  std::string overwritten_;       // the line as it was at the last carriage return
  bool returned_ = false;         // the last byte was a carriage return
  bool has_overwritten_ = false;  // overwritten_ holds a line that was not taken yet
};

}  // namespace hookline
