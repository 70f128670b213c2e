#include "launcher/output/tail.h"

namespace hookline {

Tail::Tail(std::size_t most_lines, std::size_t longest_bytes)
    : most_lines_(most_lines), longest_bytes_(longest_bytes) {}

void Tail::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!last_is_open_) {
      lines_.emplace_back();
      if (lines_.size() > most_lines_) lines_.pop_front();
      last_is_open_ = true;
    }
    const std::size_t newline = bytes.find('\n');
    std::string& line = lines_.back();
    line.append(bytes.substr(0, newline).substr(0, longest_bytes_ - line.size()));
    if (newline == std::string_view::npos) return;
    last_is_open_ = false;
    if (line.empty() || line.starts_with("frame #")) lines_.pop_back();
    bytes.remove_prefix(newline + 1);
  }
}

}  // namespace hookline
