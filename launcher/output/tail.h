// The last lines of a stream, for the message about the rank that failed.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace hookline {

/// Keeps the last `most_lines` lines, and the first `longest_bytes` of each.
/// Leaves out empty lines and the frames that libtorch prints below an error, which would push the error
/// itself out.
class Tail {
 public:
  explicit Tail(std::size_t most_lines = 10, std::size_t longest_bytes = 1000);

  void add(std::string_view line);
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  std::size_t most_lines_;
  std::size_t longest_bytes_;
  std::deque<std::string> lines_;
};

}  // namespace hookline
