#include "launcher/output/line_prefixer.h"

#include <algorithm>
#include <utility>

namespace hookline {

LinePrefixer::LinePrefixer(std::string prefix, std::size_t longest_bytes)
    : prefix_(std::move(prefix)), longest_bytes_(longest_bytes) {}

std::string LinePrefixer::feed(std::string_view bytes) {
  std::string lines;
  while (!bytes.empty()) {
    if (returned_ && bytes.front() != '\n') {
      if (!held_.empty()) {
        overwritten_ = std::move(held_);
        has_overwritten_ = true;
      }
      held_.clear();
    }
    returned_ = false;
    const std::size_t end = bytes.find_first_of("\n\r");
    const std::size_t room = longest_bytes_ - held_.size();
    const std::size_t taken = std::min(end == std::string_view::npos ? bytes.size() : end, room);
    held_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    const char mark = bytes.empty() ? '\0' : bytes.front();
    returned_ = mark == '\r';
    if (returned_ || mark == '\n') bytes.remove_prefix(1);
    if (mark == '\n' || (!returned_ && held_.size() == longest_bytes_)) {
      lines.append(prefix_).append(held_).push_back('\n');
      held_.clear();
      has_overwritten_ = false;
    }
  }
  return lines;
}

std::string LinePrefixer::take_overwritten() {
  has_overwritten_ = false;
  return prefix_ + overwritten_ + '\n';
}

std::string LinePrefixer::flush() {
  if (held_.empty()) return {};
  std::string line = prefix_ + held_ + '\n';
  held_.clear();
  return line;
}

}  // namespace hookline
