// The socket to the launcher that started this process. It carries lines of text in both directions.
#pragma once

#include <string>
#include <vector>

#include "base/lines.h"

namespace hookline {

/// Except in finish(), never waits for the launcher, which may itself be waiting for this process to read.
class LauncherSocket {
 public:
  explicit LauncherSocket(int descriptor) : descriptor_(descriptor) {}

  int descriptor() const { return descriptor_; }
  /// For poll(): POLLIN, and POLLOUT as long as lines are left to be sent.
  short events() const;

  /// Sends "WORD TEXT" as one line, as far as the launcher reads; the rest goes with flush().
  void tell(const std::string& word, const std::string& text);
  void flush();
  /// Sends what is left, and waits for the launcher to read it; returns early if it has exited.
  void finish();

  /// Appends the lines that have arrived. False once the launcher has closed its end.
  bool read(std::vector<std::string>& lines);

 private:
  std::string unsent_;
  std::size_t sent_ = 0;  // of unsent_
  int descriptor_;
  BoundedLines received_{BoundedLines::kUnlimited};  // at most a message each
};

}  // namespace hookline
