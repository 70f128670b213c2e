#include "libexec/rendezvous/store/rank_connections.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/text/address_text.h"
#include "base/unix_socket.h"

namespace hookline {
namespace {

// Ids in epoll's events: first the listening sockets (the Unix socket, then those for TCP), then connections.
constexpr std::uint64_t kHere = 0, kTcp = 1, kLastListening = 255;
constexpr int kMostPortsTried = 32;
constexpr int kMostWaiting = 4096;  // to be accepted
constexpr int kMostInATurn = 256;   // accepted, before others are read from again
constexpr std::size_t kBlockBytes = 64 << 10;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = sizeof bytes;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
};

/// In digits; an IPv4 address that came as IPv6, in its own form. Empty if it is not an internet address.
std::string text_of(Address& address) { return without_ipv4_prefix(digits_of(address.get(), address.size)); }

/// Listens at `port`, or if that is 0 at a free one, which it becomes. Closed if the port is taken. Throws
/// std::system_error.
FileDescriptor listening_at(const std::string& address, int& port) {
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  ipv4.sin_port = ipv6.sin6_port;
  const bool is_ipv4 = !address.empty() && ::inet_pton(AF_INET, address.c_str(), &ipv4.sin_addr) == 1;
  const bool is_ipv6 =
      !is_ipv4 && (address.empty() || ::inet_pton(AF_INET6, address.c_str(), &ipv6.sin6_addr) == 1);
  const int only_ipv6 = address.empty() ? 0 : 1;
  FileDescriptor tcp;
  if (is_ipv6) tcp = FileDescriptor(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  bool is_bound = tcp.is_open() &&
                  ::setsockopt(tcp.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_ipv6, sizeof only_ipv6) == 0 &&
                  ::bind(tcp.get(), reinterpret_cast<const sockaddr*>(&ipv6), sizeof ipv6) == 0;
  if (is_ipv4 || (address.empty() && !tcp.is_open())) {  // a system may be without IPv6
    tcp = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    is_bound = tcp.is_open() && ::bind(tcp.get(), reinterpret_cast<const sockaddr*>(&ipv4), sizeof ipv4) == 0;
  }
  Address bound;
  if (is_bound && ::listen(tcp.get(), kMostWaiting) == 0 &&
      ::getsockname(tcp.get(), bound.get(), &bound.size) == 0) {
    port =
        ntohs(bound.bytes.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound.bytes).sin6_port
                                                : reinterpret_cast<const sockaddr_in&>(bound.bytes).sin_port);
    return tcp;
  }
  if (port == 0 || errno != EADDRINUSE) fail("can't open a port for the ranks' store");
  return FileDescriptor();
}

}  // namespace

RankConnections::RankConnections() : polled_(::epoll_create1(EPOLL_CLOEXEC)), last_(kLastListening) {
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
  tcp_.clear();
  is_paused_ = false;
  here_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!here_.is_open() || !listen_anywhere(here_.get(), kMostWaiting))
    fail("can't open a socket for the ranks' store");
  watch(here_.get(), kHere, true, false, true);
  return name_of_socket(here_.get());
}

int RankConnections::listen_at(const std::vector<std::string>& addresses,
                               std::function<bool(const std::string& address)> is_member) {
  is_member_ = std::move(is_member);
  has_refused_ = false;
  for (int tries = 0; tries < kMostPortsTried; ++tries) {
    tcp_.clear();
    int port = 0;  // free at the first address, and then wanted at the others, too
    for (const std::string& address : addresses) {
      tcp_.push_back(listening_at(address, port));
      if (!tcp_.back().is_open()) break;
    }
    if (!tcp_.back().is_open()) continue;
    for (std::size_t i = 0; i < tcp_.size(); ++i) watch(tcp_[i].get(), kTcp + i, !is_paused_, false, true);
    return port;
  }
  errno = EADDRINUSE;
  fail("can't open a port for the ranks' store");
}

bool RankConnections::may_connect(int descriptor, const std::string& from) {
  if (from.empty()) return false;  // it has gone
  Address own;
  if (is_loopback(from) || is_member_(from) ||
      (::getsockname(descriptor, own.get(), &own.size) == 0 && from == text_of(own)))
    return true;
  if (!std::exchange(has_refused_, true)) stranger_ = from;
  return false;
}

void RankConnections::accept_all(const FileDescriptor& listener, bool is_tcp, std::vector<Event>& events) {
  for (int i = 0; i < kMostInATurn; ++i) {
    Address from;
    FileDescriptor accepted(::accept4(listener.get(), from.get(), &from.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!accepted.is_open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // Without a free descriptor, poll() would report the same connection again and again.
      if (errno == EMFILE || errno == ENFILE) pause(true);
      return;
    }
    if (is_tcp ? !may_connect(accepted.get(), text_of(from)) : !is_of_this_user(accepted.get())) continue;
    const int yes = 1;
    if (is_tcp) ::setsockopt(accepted.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    const Connection connection = ++last_;
    watch(accepted.get(), connection, true, false, true);
    open_[connection].descriptor = std::move(accepted);
    events.push_back({Event::Kind::opened, connection});
  }
}

void RankConnections::pause(bool pauses) {
  if (std::exchange(is_paused_, pauses) == pauses) return;
  if (here_.is_open()) watch(here_.get(), kHere, !pauses, false, false);
  for (std::size_t i = 0; i < tcp_.size(); ++i) watch(tcp_[i].get(), kTcp + i, !pauses, false, false);
}

void RankConnections::forget(Connection connection) {
  open_.erase(connection);
  pause(false);
}

void RankConnections::read(Connection connection, std::vector<Event>& events) {
  const auto open = open_.find(connection);
  std::string bytes;
  while (true) {
    std::array<char, kBlockBytes> block;
    const ssize_t count = ::recv(open->second.descriptor.get(), block.data(), block.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count > 0) bytes.append(block.data(), static_cast<std::size_t>(count));
    if (count > 0 && bytes.size() < kBlockBytes) continue;  // else others first: epoll reports it again
    const bool is_over = count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
    if (!bytes.empty() && !open->second.is_ending)
      events.push_back({Event::Kind::data, connection, std::move(bytes)});
    if (!is_over) return;
    if (!open->second.is_ending) events.push_back({Event::Kind::ended, connection});
    return forget(connection);
  }
}

std::vector<RankConnections::Event> RankConnections::events() {
  std::vector<Event> events;
  std::array<epoll_event, 256> ready;
  const int count = ::epoll_wait(polled_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = ready.at(static_cast<std::size_t>(i));
    const std::uint64_t number = event.data.u64;
    if (number <= kLastListening) {
      accept_all(number == kHere ? here_ : tcp_.at(number - kTcp), number != kHere, events);
      continue;
    }
    if (!open_.contains(number)) continue;
    if ((event.events & EPOLLOUT) != 0 && !flush(number)) {
      if (!open_.at(number).is_ending) events.push_back({Event::Kind::ended, number});
      forget(number);
      continue;
    }
    if (open_.at(number).is_ending && open_.at(number).unsent.empty())
      forget(number);
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
  if (open->second.unsent.empty()) forget(connection);
}

}  // namespace hookline
