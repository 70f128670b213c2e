#include "libexec/rendezvous/launcher_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>

namespace hookline {

void LauncherSocket::tell(const std::string& word, const std::string& text) {
  std::string line = word + " " + text;
  for (char& c : line) {
    if (c == '\n') c = ' ';
  }
  line += '\n';
  const std::lock_guard lock(mutex_);
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t count = ::send(descriptor_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return;  // the launcher has exited, and this process is about to
    sent += static_cast<std::size_t>(count);
  }
}

bool LauncherSocket::read(std::vector<std::string>& lines, std::chrono::milliseconds patience) {
  pollfd descriptor = {descriptor_, POLLIN, 0};
  if (::poll(&descriptor, 1, static_cast<int>(patience.count())) <= 0) return true;
  char block[4096];
  const ssize_t count = ::recv(descriptor_, block, sizeof block, 0);
  if (count <= 0) return false;
  received_.feed({block, static_cast<std::size_t>(count)},
                 [&lines](const std::string& line, std::uint64_t) { lines.push_back(line); });
  return true;
}

}  // namespace hookline
