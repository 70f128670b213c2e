// A program on a pseudo-terminal, and simulated typing.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "support/process.h"

namespace hookline::testing {

/// A terminal of 40 lines and 100 columns. The program is killed on destruction.
class Terminal {
 public:
  /// `options`: arguments, environment and folder; its input comes from type().
  Terminal(const std::string& program, const ProcessOptions& options);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys) const;

  /// Reads until `text` appears after the last match; false if it does not within two minutes.
  bool shows(const std::string& text);

  /// Waits for the program to exit and returns its exit code; 128 + n if killed by signal n.
  int exit_code();

  /// All output that shows() and exit_code() have read so far.
  const std::string& screen() const { return screen_; }

 private:
  int descriptor_ = -1;
  pid_t pid_ = -1;
  std::string screen_;
  std::size_t seen_ = 0;
};

namespace keys {
inline const std::string kUp = "\x1b[A", kDown = "\x1b[B", kLeft = "\x1b[D", kEscape = "\x1b";
inline const std::string kEnter = "\r", kErase = "\x7f", kTab = "\t", kInterrupt = "\x03", kEnd = "\x04";
}  // namespace keys

}  // namespace hookline::testing
