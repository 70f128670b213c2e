// The line at the foot of a terminal that shows how a sweep is going, and the log lines above it.
#pragma once

#include <cstddef>
#include <string>

#include "launcher/output/terminal_line.h"

namespace hookline {

/// On standard error; without a terminal there is no such line. The destructor erases it.
class ProgressLine {
 public:
  explicit ProgressLine(bool on_terminal);
  ~ProgressLine() { erase(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool is_wanted() const { return on_terminal_; }
  std::size_t columns() const { return line_.columns(); }
  /// Replaces the line.
  void show(const std::string& text);
  void erase() { line_.erase(); }
  /// Logs a line that stays.
  void tell(const std::string& line);

 private:
  bool on_terminal_;
  TerminalLine line_;
};

}  // namespace hookline
