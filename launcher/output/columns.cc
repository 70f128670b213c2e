#include "launcher/output/columns.h"

#include <sys/ioctl.h>

#include <algorithm>

namespace hookline {
namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

}  // namespace

int columns_of(int terminal) {
  winsize size = {};
  return ioctl(terminal, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string cut_to_columns(const std::string& text, std::size_t columns, const std::string& separator) {
  std::size_t seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!begins_character(text[i]) || ++seen <= columns) continue;
    const std::size_t part = i < separator.size() ? text.npos : text.rfind(separator, i);
    return text.substr(0, part == text.npos ? i : part);
  }
  return text;
}

}  // namespace hookline
