#include "launcher/sweep/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "launcher/output/status_line.h"

namespace hookline {

std::size_t ProgressLine::columns() const {
  // Some terminals start a new line as soon as the last column is written.
  return static_cast<std::size_t>(std::max(1, columns_of(STDERR_FILENO) - 1));
}

void ProgressLine::show(const std::string& text) {
  if (!on_terminal_) return;
  std::fprintf(stderr, "\r\x1b[K%s",
               cut_to_columns(printable(text), static_cast<int>(columns()), " | ").c_str());
  shown_ = true;
}

void ProgressLine::erase() {
  if (std::exchange(shown_, false)) std::fprintf(stderr, "\r\x1b[K");
}

void ProgressLine::tell(const std::string& line) {
  erase();
  log::info(line);
}

}  // namespace hookline
