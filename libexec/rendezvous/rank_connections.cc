#include "libexec/rendezvous/rank_connections.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

#include "base/address_text.h"

namespace hookline {
namespace {

constexpr std::uint64_t kHere = 0, kTcp = 1;  // what epoll calls the two that listen; connections come after
constexpr int kMostWaiting = 4096;            // to be accepted
constexpr std::size_t kBlockBytes = 64 << 10;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

/// The address at one end of a connection, in digits; of an IPv4 address that came as IPv6, in its own form.
std::string address_at(int descriptor, int (*end)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char digits[NI_MAXHOST] = "";
  if (end(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, digits, sizeof digits, nullptr, 0,
                    NI_NUMERICHOST) != 0)
    return "";
  return without_ipv4_prefix(digits);
}

bool is_of_this_user(int descriptor) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == ::geteuid() || peer.uid == 0);
}

}  // namespace

RankConnections::RankConnections() : polled_(::epoll_create1(EPOLL_CLOEXEC)), last_(kTcp) {
  if (!polled_.is_open()) fail("epoll_create1");
}

void RankConnections::watch(int descriptor, std::uint64_t number, bool reads, bool writes, bool is_new) {
  epoll_event event{};
  event.events = (reads ? EPOLLIN : 0U) | (writes ? EPOLLOUT : 0U);
  event.data.u64 = number;
  if (::epoll_ctl(polled_.get(), is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, descriptor, &event) != 0)
    fail("epoll_ctl");
}

std::string RankConnections::listen_here() {
  open_.clear();
  tcp_.reset();
  here_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t size = sizeof address;
  // The kernel chooses the name.
  if (::bind(here_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address.sun_family) != 0 ||
      ::listen(here_.get(), kMostWaiting) != 0 ||
      ::getsockname(here_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    fail("a socket for the ranks' store");
  watch(here_.get(), kHere, true, false, true);
  return {address.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1};
}

int RankConnections::listen_at(const std::string& address,
                               std::function<bool(const std::string& address)> is_member) {
  is_member_ = std::move(is_member);
  has_refused_ = false;
  addrinfo hints = {}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_family = address.empty() ? AF_INET6 : AF_UNSPEC;
  if (const int error = ::getaddrinfo(address.empty() ? nullptr : address.c_str(), "0", &hints, &found);
      error != 0)
    throw std::system_error(EINVAL, std::generic_category(), ::gai_strerror(error));
  tcp_ = FileDescriptor(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  const int only_ipv6 = address.empty() ? 0 : 1;
  const bool is_bound =
      tcp_.is_open() &&
      (found->ai_family != AF_INET6 ||
       ::setsockopt(tcp_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_ipv6, sizeof only_ipv6) == 0) &&
      ::bind(tcp_.get(), found->ai_addr, found->ai_addrlen) == 0 && ::listen(tcp_.get(), kMostWaiting) == 0 &&
      ::getsockname(tcp_.get(), reinterpret_cast<sockaddr*>(&bound), &size) == 0;
  const int reason = errno;
  ::freeaddrinfo(found);
  if (!is_bound) {
    tcp_.reset();
    errno = reason;
    fail("a port for the ranks' store");
  }
  watch(tcp_.get(), kTcp, true, false, true);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

bool RankConnections::may_connect(int descriptor) {
  const std::string from = address_at(descriptor, ::getpeername);
  if (from == address_at(descriptor, ::getsockname) || is_loopback(from) || is_member_(from)) return true;
  if (!std::exchange(has_refused_, true)) stranger_ = from;
  return false;
}

void RankConnections::accept_all(const FileDescriptor& listener, bool is_tcp, std::vector<Event>& events) {
  while (true) {
    FileDescriptor accepted(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!accepted.is_open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    if (is_tcp ? !may_connect(accepted.get()) : !is_of_this_user(accepted.get())) continue;
    const int yes = 1;
    if (is_tcp) ::setsockopt(accepted.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    const Connection connection = ++last_;
    watch(accepted.get(), connection, true, false, true);
    open_[connection].descriptor = std::move(accepted);
    events.push_back({Event::Kind::opened, connection});
  }
}

void RankConnections::read(Connection connection, std::vector<Event>& events) {
  const auto open = open_.find(connection);
  std::string bytes;
  while (true) {
    std::array<char, kBlockBytes> block;
    const ssize_t count = ::recv(open->second.descriptor.get(), block.data(), block.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count > 0) bytes.append(block.data(), static_cast<std::size_t>(count));
    if (count > 0 && bytes.size() < kBlockBytes) continue;  // else others first: it is read again
    const bool is_over = count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
    if (!bytes.empty() && !open->second.is_ending)
      events.push_back({Event::Kind::data, connection, std::move(bytes)});
    if (!is_over) return;
    if (!open->second.is_ending) events.push_back({Event::Kind::ended, connection});
    open_.erase(open);
    return;
  }
}

std::vector<RankConnections::Event> RankConnections::events() {
  std::vector<Event> events;
  std::array<epoll_event, 256> ready;
  const int count = ::epoll_wait(polled_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = ready.at(static_cast<std::size_t>(i));
    const std::uint64_t number = event.data.u64;
    if (number == kHere || number == kTcp) {
      accept_all(number == kHere ? here_ : tcp_, number == kTcp, events);
      continue;
    }
    if (!open_.contains(number)) continue;
    if ((event.events & EPOLLOUT) != 0 && !flush(number)) {
      if (!open_.at(number).is_ending) events.push_back({Event::Kind::ended, number});
      open_.erase(number);
      continue;
    }
    if (open_.at(number).is_ending && open_.at(number).unsent.empty())
      open_.erase(number);
    else if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
      read(number, events);
  }
  return events;
}

bool RankConnections::flush(Connection connection) {
  Open& open = open_.at(connection);
  std::size_t sent = 0;
  while (sent < open.unsent.size()) {
    const ssize_t count =
        ::send(open.descriptor.get(), open.unsent.data() + sent, open.unsent.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return false;
    if (count < 0) break;
    sent += static_cast<std::size_t>(count);
  }
  open.unsent.erase(0, sent);
  watch(open.descriptor.get(), connection, true, !open.unsent.empty(), false);
  return true;
}

void RankConnections::send(Connection connection, std::string_view bytes) {
  const auto open = open_.find(connection);
  if (open == open_.end()) return;  // it has ended meanwhile
  const bool is_waiting = !open->second.unsent.empty();
  open->second.unsent += bytes;
  if (!is_waiting) flush(connection);  // what is broken is found by the next read
}

void RankConnections::end(Connection connection) {
  const auto open = open_.find(connection);
  if (open == open_.end()) return;
  open->second.is_ending = true;
  if (open->second.unsent.empty()) open_.erase(open);
}

}  // namespace hookline
