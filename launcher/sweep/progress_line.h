// The line at the foot of a terminal that says how a sweep goes, and what is said above it.
#pragma once

#include <cstddef>
#include <string>

namespace hookline {

/// On standard error; without a terminal there is no such line. Goes when this goes.
class ProgressLine {
 public:
  explicit ProgressLine(bool on_terminal) : on_terminal_(on_terminal) {}
  ~ProgressLine() { erase(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool is_wanted() const { return on_terminal_; }
  std::size_t columns() const;
  /// In place of the former, cut to the terminal's columns.
  void show(const std::string& text);
  void erase();
  /// Logs what stays.
  void tell(const std::string& line);

 private:
  bool on_terminal_;
  bool shown_ = false;
};

}  // namespace hookline
