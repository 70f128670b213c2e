// The socket to the launcher that started this process. It carries lines of text in both directions.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "base/lines.h"

namespace hookline {

/// tell() may be called from several threads, read() from one.
class LauncherSocket {
 public:
  explicit LauncherSocket(int descriptor) : descriptor_(descriptor) {}

  /// Sends "WORD TEXT" as one line.
  void tell(const std::string& word, const std::string& text);

  /// Appends the lines that have arrived; waits at most `patience` for the first. False once the launcher has
  /// closed its end.
  bool read(std::vector<std::string>& lines, std::chrono::milliseconds patience);

 private:
  int descriptor_;
  std::mutex mutex_;
  BoundedLines received_{BoundedLines::kUnlimited};  // a failure's text may take megabytes
};

}  // namespace hookline
