// The line that shows how a run is going: live on a terminal, a plain line from time to time elsewhere.
#pragma once

#include <chrono>
#include <string>

#include "launcher/output/output_queue.h"
#include "launcher/output/terminal_line.h"

namespace hookline {

class StatusLine {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Form { none, live, plain };

  /// Writes to `error`, which must outlive this. `interval`: how often it shows a plain line.
  StatusLine(OutputQueue& error, Form form, std::chrono::duration<double> interval);

  /// When show() is to be called next; max() means never.
  Clock::time_point due() const { return due_; }
  /// Leaves out a plain line unless `has_news`: it would show only the time.
  void show(const std::string& text, bool has_news, Clock::time_point now);

  /// Removes a live line, before other output or at the end.
  void erase();

 private:
  OutputQueue& error_;
  Form form_;
  Clock::duration interval_;
  Clock::time_point due_;
  TerminalLine line_;
};

}  // namespace hookline
