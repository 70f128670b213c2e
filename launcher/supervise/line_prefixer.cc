#include "launcher/supervise/line_prefixer.h"

#include <algorithm>
#include <utility>

namespace hookline {

LinePrefixer::LinePrefixer(std::string prefix, std::size_t longest_bytes)
    : prefix_(std::move(prefix)), longest_bytes_(longest_bytes) {}

std::string LinePrefixer::feed(std::string_view bytes) {
  std::string lines;
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::size_t room = longest_bytes_ - held_.size();
    const std::size_t wanted = newline == std::string_view::npos ? bytes.size() : newline;
    const std::size_t taken = std::min(wanted, room);
    held_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    const bool complete = !bytes.empty() && bytes.front() == '\n';
    if (complete) bytes.remove_prefix(1);
    if (complete || held_.size() == longest_bytes_) {
      lines.append(prefix_).append(held_).push_back('\n');
      held_.clear();
    }
  }
  return lines;
}

std::string LinePrefixer::flush() {
  if (held_.empty()) return {};
  std::string line = prefix_ + held_ + '\n';
  held_.clear();
  return line;
}

}  // namespace hookline
