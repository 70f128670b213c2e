// Cuts a stream of bytes into lines and puts a prefix before each.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hookline {

/// For one stream of one rank. Holds a line back until it is complete, so that lines of several ranks never
/// mix. A line longer than `longest_bytes` is handed out in pieces of that size, each as a line of its own.
/// Leaves out what a carriage return overwrites, as in a progress bar.
class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix, std::size_t longest_bytes = 64 * 1024);

  /// The lines that `bytes` completes, each with its prefix and newline.
  std::string feed(std::string_view bytes);

  /// Has a carriage return completed a state of the unfinished line that was not taken yet?
  bool has_overwritten() const { return has_overwritten_; }
  /// That state, as a line.
  std::string take_overwritten();

  /// What is held back, as a line; empty if nothing is.
  std::string flush();

 private:
  std::string prefix_;
  std::size_t longest_bytes_;
  std::string held_;
  std::string overwritten_;       // the line as it was at the last carriage return
  bool returned_ = false;         // the last byte was a carriage return
  bool has_overwritten_ = false;  // and it was not taken yet
};

}  // namespace hookline
