// A program on a pseudo-terminal of its own, and somebody who types.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "support/process.h"

namespace hookline::testing {

/// 40 lines of 100 columns. The program is killed when this goes.
class Terminal {
 public:
  /// `options`: arguments, environment and folder; its input is what is typed.
  Terminal(const std::string& program, const ProcessOptions& options);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys) const;

  /// Reads until `text` comes behind what was found before; false if it does not within two minutes.
  bool shows(const std::string& text);

  /// Waits for the end; 128 + n if it was killed by signal n.
  int exit_code();

  /// All that was written so far.
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
