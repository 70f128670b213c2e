#include "libexec/rendezvous/rank_connections.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/address_text.h"
#include "base/unix_socket.h"

namespace hookline {
namespace {

constexpr std::uint64_t kHere = 0, kTcp = 1;  // what epoll calls the two that listen; connections come after
constexpr int kMostWaiting = 4096;            // to be accepted
constexpr int kMostInATurn = 256;             // accepted, before others are read from again
constexpr std::size_t kBlockBytes = 64 << 10;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = sizeof bytes;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
};

/// In digits; an IPv4 address that came as IPv6, in its own form. Empty if it is no internet address.
std::string text_of(Address& address) { return without_ipv4_prefix(digits_of(address.get(), address.size)); }

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
  is_paused_ = false;
  here_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!here_.is_open() || !listen_anywhere(here_.get(), kMostWaiting))
    fail("can't open a socket for the ranks' store");
  watch(here_.get(), kHere, true, false, true);
  return name_of_socket(here_.get());
}

int RankConnections::listen_at(const std::string& address,
                               std::function<bool(const std::string& address)> is_member) {
  is_member_ = std::move(is_member);
  has_refused_ = false;
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  const bool is_ipv4 = !address.empty() && ::inet_pton(AF_INET, address.c_str(), &ipv4.sin_addr) == 1;
  const bool is_ipv6 =
      !is_ipv4 && (address.empty() || ::inet_pton(AF_INET6, address.c_str(), &ipv6.sin6_addr) == 1);
  const int only_ipv6 = address.empty() ? 0 : 1;
  if (is_ipv6) tcp_ = FileDescriptor(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  bool is_bound = tcp_.is_open() &&
                  ::setsockopt(tcp_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_ipv6, sizeof only_ipv6) == 0 &&
                  ::bind(tcp_.get(), reinterpret_cast<const sockaddr*>(&ipv6), sizeof ipv6) == 0;
  if (is_ipv4 || (address.empty() && !tcp_.is_open())) {  // a system may be without IPv6
    tcp_ = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    is_bound =
        tcp_.is_open() && ::bind(tcp_.get(), reinterpret_cast<const sockaddr*>(&ipv4), sizeof ipv4) == 0;
  }
  Address bound;
  if (!is_bound || ::listen(tcp_.get(), kMostWaiting) != 0 ||
      ::getsockname(tcp_.get(), bound.get(), &bound.size) != 0)
    fail("can't open a port for the ranks' store");
  watch(tcp_.get(), kTcp, !is_paused_, false, true);
  return ntohs(bound.bytes.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(bound.bytes).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(bound.bytes).sin_port);
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
  if (tcp_.is_open()) watch(tcp_.get(), kTcp, !pauses, false, false);
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
    if (count > 0 && bytes.size() < kBlockBytes) continue;  // else others first: it is read again
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
    if (number == kHere || number == kTcp) {
      accept_all(number == kHere ? here_ : tcp_, number == kTcp, events);
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
