#include "launcher/output/tail.h"

namespace hookline {

Tail::Tail(std::size_t most_lines, std::size_t longest_bytes)
    : most_lines_(most_lines), longest_bytes_(longest_bytes) {}

void Tail::add(std::string_view line) {
  if (line.empty() || line.starts_with("frame #")) return;
  lines_.emplace_back(line.substr(0, longest_bytes_));
  if (lines_.size() > most_lines_) lines_.pop_front();
}

}  // namespace hookline
