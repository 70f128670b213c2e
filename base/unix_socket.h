// Unix sockets without a file, by whose names processes of one user on one host find each other.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>

namespace hookline {

/// Binds a Unix socket to a name that the kernel chooses, and listens. False, with errno, if that fails.
inline bool listen_anywhere(int socket, int most_waiting) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address.sun_family) == 0 &&
         ::listen(socket, most_waiting) == 0;
}

/// The name of such a socket; empty, with errno, if the system does not tell.
inline std::string name_of_socket(int socket) {
  sockaddr_un address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  constexpr std::size_t kBeforeName = offsetof(sockaddr_un, sun_path) + 1;  // it begins with a zero byte
  return size > kBeforeName ? std::string(address.sun_path + 1, size - kBeforeName) : "";
}

/// Connects to the socket of that name. False, with errno, if that fails.
inline bool connect_to_name(int socket, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  int failed = -1;
  do failed = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), size);
  while (failed != 0 && errno == EINTR);
  return failed == 0;
}

/// Does the process at the other end of a connection belong to this process's user?
inline bool is_of_this_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

/// Waits until a read would not block. False if it still would at `until`, or if poll() fails.
inline bool readable_by(int descriptor, std::chrono::steady_clock::time_point until) {
  using std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    pollfd waiting{descriptor, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::clamp<long long>(left, 0, 1 << 30)));
    if (ready > 0) return true;
    if (ready == 0 && Clock::now() >= until) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace hookline
