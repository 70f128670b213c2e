#include "launcher/output/line_splitter.h"

#include <algorithm>
#include <utility>

namespace hookline {

void LineSplitter::feed(std::string_view bytes, const Take& take) {
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
      take(held_);
      held_.clear();
      has_overwritten_ = false;
    }
  }
}

std::string LineSplitter::take_overwritten() {
  has_overwritten_ = false;
  return std::exchange(overwritten_, {});
}

void LineSplitter::finish(const Take& take) {
  if (!held_.empty()) take(held_);
  held_.clear();
}

}  // namespace hookline
