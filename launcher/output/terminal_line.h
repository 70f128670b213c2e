// A line at the foot of a terminal that is redrawn in place.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace hookline {

/// Erase it before writing anything else to the terminal.
class TerminalLine {
 public:
  using Write = std::function<void(std::string_view)>;

  /// `write` writes to `terminal`. A line that is too long is cut between parts, which `separator` separates.
  TerminalLine(int terminal, std::string separator, Write write);

  /// The columns that a line may take.
  std::size_t columns() const;
  /// Replaces the line.
  void show(const std::string& text);
  /// Returns whether there was a line.
  bool erase();

 private:
  int terminal_;
  std::string separator_;
  Write write_;
  bool is_shown_ = false;
};

}  // namespace hookline
