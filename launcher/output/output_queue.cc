#include "launcher/output/output_queue.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace hookline {

void OutputQueue::write(std::string_view text) {
  if (before_write_ && !text.empty()) before_write_();
  write_without_callback(text);
}

void OutputQueue::write_without_callback(std::string_view text) {
  if (error_number_ != 0) return;
  pending_.append(text);
  pump();
}

void OutputQueue::pump() {
  while (!is_empty()) {
    // A pipe that polls as writable has room for PIPE_BUF bytes, so writing at most that much never blocks.
    pollfd ready = {descriptor_, POLLOUT, 0};
    if (poll(&ready, 1, 0) <= 0) break;
    std::string_view piece = std::string_view(pending_).substr(written_, PIPE_BUF);
    const std::size_t newline = piece.rfind('\n');
    if (newline != std::string_view::npos) piece = piece.substr(0, newline + 1);
    const ssize_t count = ::write(descriptor_, piece.data(), piece.size());
    if (count < 0) {
      if (errno == EINTR || errno == EAGAIN) break;
      error_number_ = errno;
      discard();
      return;
    }
    written_ += static_cast<std::size_t>(count);
  }
  if (is_empty())
    discard();
  else if (written_ > kCongestedBytes) {
    pending_.erase(0, written_);
    written_ = 0;
  }
}

}  // namespace hookline
