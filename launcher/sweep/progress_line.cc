#include "launcher/sweep/progress_line.h"

#include <unistd.h>

#include <cstdio>

#include "base/log.h"
#include "base/text/printable.h"

namespace hookline {

ProgressLine::ProgressLine(bool on_terminal)
    : on_terminal_(on_terminal), line_(STDERR_FILENO, " | ", [](std::string_view text) {
        std::fwrite(text.data(), 1, text.size(), stderr);
      }) {}

void ProgressLine::show(const std::string& text) {
  if (on_terminal_) line_.show(printable(text));
}

void ProgressLine::tell(const std::string& line) {
  erase();
  log::info(line);
}

}  // namespace hookline
