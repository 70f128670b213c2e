#include "libexec/rendezvous/lines/launcher_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace hookline {

short LauncherSocket::events() const {
  return static_cast<short>(unsent_.empty() ? POLLIN : POLLIN | POLLOUT);
}

void LauncherSocket::tell(const std::string& word, const std::string& text) {
  const std::size_t begin = unsent_.size();
  unsent_ += word + " " + text;
  for (std::size_t i = begin; i < unsent_.size(); ++i) {
    if (unsent_[i] == '\n') unsent_[i] = ' ';
  }
  unsent_ += '\n';
  flush();
}

void LauncherSocket::flush() {
  while (sent_ < unsent_.size()) {
    const ssize_t count =
        ::send(descriptor_, unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) break;  // the launcher has exited, and this process is about to
    sent_ += static_cast<std::size_t>(count);
  }
  unsent_.clear();
  sent_ = 0;
}

void LauncherSocket::finish() {
  for (flush(); !unsent_.empty(); flush()) {
    pollfd descriptor = {descriptor_, POLLOUT, 0};
    ::poll(&descriptor, 1, -1);
  }
}

bool LauncherSocket::read(std::vector<std::string>& lines) {
  char block[65536];
  while (true) {
    const ssize_t count = ::recv(descriptor_, block, sizeof block, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return true;
    if (count <= 0) return false;
    received_.feed({block, static_cast<std::size_t>(count)},
                   [&lines](const std::string& line, std::uint64_t) { lines.push_back(line); });
  }
}

}  // namespace hookline
