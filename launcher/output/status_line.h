// The line that shows how a run goes: a live one on a terminal, plain ones from time to time elsewhere.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "launcher/output/output_queue.h"

namespace hookline {

/// Of a terminal; 80 if it does not say.
int columns_of(int terminal);

/// The columns that UTF-8 text takes, one a character.
std::size_t width_of(const std::string& text);

/// Cuts UTF-8 text to so many characters, each as wide as one column, and to whole parts if it has several. Without a
/// separator it has none.
std::string cut_to_columns(const std::string& text, int columns, const std::string& separator);

class StatusLine {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Form { none, live, plain };

  /// Writes to `error`, which must outlive it; a plain line every `interval`.
  StatusLine(OutputQueue& error, Form form, std::chrono::duration<double> interval);

  /// When show() is next to be called; never, if that is max().
  Clock::time_point due() const { return due_; }
  /// A plain line is left out unless `has_news`: it would say no more than a clock.
  void show(const std::string& text, bool has_news, Clock::time_point now);

  /// Takes a live line away, for other output or for the end.
  void erase();

 private:
  OutputQueue& error_;
  Form form_;
  Clock::duration interval_;
  Clock::time_point due_;
  bool shown_ = false;
};

}  // namespace hookline
