#include "launcher/output/terminal_line.h"

#include <algorithm>
#include <utility>

#include "launcher/output/columns.h"

namespace hookline {
namespace {

constexpr std::string_view kToEmptyLine = "\r\x1b[2K";

}  // namespace

TerminalLine::TerminalLine(int terminal, std::string separator, Write write)
    : terminal_(terminal), separator_(std::move(separator)), write_(std::move(write)) {}

std::size_t TerminalLine::columns() const {
  // Some terminals start a new line as soon as the last column is written.
  return static_cast<std::size_t>(std::max(1, columns_of(terminal_) - 1));
}

void TerminalLine::show(const std::string& text) {
  write_(std::string(kToEmptyLine) + cut_to_columns(text, columns(), separator_));
  is_shown_ = true;
}

bool TerminalLine::erase() {
  if (!std::exchange(is_shown_, false)) return false;
  write_(kToEmptyLine);
  return true;
}

}  // namespace hookline
