// Cuts a stream of bytes into lines and puts a prefix before each.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hookline {

/// For one stream of one rank. Holds a line back until it is complete, so that the lines of several ranks
/// never mix; a line that grows beyond `longest_bytes` is handed out in pieces of that size, each a line of
/// its own.
class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix, std::size_t longest_bytes = 64 * 1024);

  /// The lines that `bytes` completes, each with its prefix and newline.
  std::string feed(std::string_view bytes);

  /// What is held back, as a line; empty if nothing is.
  std::string flush();

 private:
  std::string prefix_;
  std::size_t longest_bytes_;
  std::string held_;
};

}  // namespace hookline
