#include "parallel/world/reachability.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/text/address_text.h"
#include "base/text/duration_text.h"
#include "parallel/rank/environment.h"

namespace hookline {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* kOtherNetwork = "name the interface of another network by GLOO_SOCKET_IFNAME";

class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

struct Address {
  sockaddr_storage bytes{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  int family() const { return bytes.ss_family; }
};

/// Throws Error unless `host` is an address in digits.
Address parse_address(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int failure = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); failure != 0)
    throw Error("'" + host + "' port " + port + " is not an address: " + ::gai_strerror(failure));
  Address address;
  std::memcpy(&address.bytes, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  ::freeaddrinfo(found);
  return address;
}

/// Listens on a port that the system chooses. Throws Error.
std::pair<Socket, std::string> listen_on(const std::string& host) {
  Address address = parse_address(host, "0");
  Socket listener(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (listener.get() < 0 || ::bind(listener.get(), address.get(), address.length) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address.bytes), &address.length) != 0)
    throw Error("this rank can't listen on its address " + host + ": " + std::strerror(errno));
  char port[NI_MAXSERV];
  ::getnameinfo(address.get(), address.length, nullptr, 0, port, sizeof port, NI_NUMERICSERV);
  return {std::move(listener), port};
}

/// A connection attempt to a node.
struct ConnectAttempt {
  int node = 0;
  std::string host, port;
  Socket socket{};
  int error = 0;  // an errno; ETIMEDOUT until it is known
};

void begin(ConnectAttempt& attempt) {
  const Address address = parse_address(attempt.host, attempt.port);
  attempt.socket = Socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (attempt.socket.get() < 0 || ::connect(attempt.socket.get(), address.get(), address.length) != 0)
    attempt.error = errno == EINPROGRESS ? ETIMEDOUT : errno;
  if (attempt.error != ETIMEDOUT) attempt.socket = Socket();
}

/// Waits until all attempts have ended, or until `give_up`.
void finish(std::vector<ConnectAttempt>& attempts, Clock::time_point give_up) {
  while (true) {
    std::vector<pollfd> descriptors;
    std::vector<ConnectAttempt*> waiting;
    for (ConnectAttempt& attempt : attempts) {
      if (attempt.socket.get() < 0) continue;
      descriptors.push_back({attempt.socket.get(), POLLOUT, 0});
      waiting.push_back(&attempt);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(give_up - Clock::now()).count();
    if (waiting.empty() || left <= 0) return;
    if (::poll(descriptors.data(), descriptors.size(), static_cast<int>(left)) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (!descriptors[i].revents) continue;
      socklen_t length = sizeof waiting[i]->error;
      ::getsockopt(waiting[i]->socket.get(), SOL_SOCKET, SO_ERROR, &waiting[i]->error, &length);
      waiting[i]->socket = Socket();
    }
  }
}

std::string problem_of(int node, const std::string& own, const ConnectAttempt& attempt,
                       std::chrono::duration<double> patience) {
  const std::string whole = "node " + std::to_string(node) + " (" + own + ") can't connect to node " +
                            std::to_string(attempt.node) + " at " + attempt.host + " port " + attempt.port +
                            ": ";
  if (is_loopback(attempt.host)) {
    return whole + std::strerror(attempt.error) +
           "; that is a loopback address, at which no other host reaches it: " +
           (environment_text("GLOO_SOCKET_IFNAME")
                ? "unset GLOO_SOCKET_IFNAME, or have it name another interface"
                : kOtherNetwork);
  }
  if (attempt.error == ETIMEDOUT) {
    return whole + "no answer within " + seconds_text(patience) +
           "; a firewall drops it, or the way back leads elsewhere. Ranks connect by any of the ports in "
           "/proc/sys/net/ipv4/ip_local_port_range: open them between the hosts, or " +
           kOtherNetwork;
  }
  if (attempt.error == ECONNREFUSED)
    return whole + "refused; a firewall rejects it, or the address is another machine's";
  return whole + std::strerror(attempt.error) + "; " + kOtherNetwork;
}

/// Why these can't all connect to each other: some have IPv4 addresses, others IPv6. Else empty. The same
/// text on every node.
std::string mixed_families(const std::vector<ConnectAttempt>& nodes) {
  const auto is_ipv6 = [](const ConnectAttempt& each) { return each.host.find(':') != std::string::npos; };
  const auto other = std::find_if(nodes.begin(), nodes.end(), [&](const ConnectAttempt& each) {
    return is_ipv6(each) != is_ipv6(nodes[0]);
  });
  if (other == nodes.end()) return "";
  const auto name = [&](const ConnectAttempt& each) {
    return "node " + std::to_string(each.node) +
           (is_ipv6(each) ? " has the IPv6 address " : " has the IPv4 address ") + each.host;
  };
  return name(nodes[0]) + ", and " + name(*other) +
         ": they can't connect to each other. Set [rendezvous] main_address to an address in digits, or to a "
         "name that stands for the same address family (IPv4 or IPv6) on every host";
}

std::string key_of(const char* what, int node) { return std::string(what) + "/" + std::to_string(node); }

std::string read(c10d::Store& store, const std::string& key, std::chrono::milliseconds timeout) {
  store.wait({key}, timeout);
  const std::vector<std::uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

void write(c10d::Store& store, const std::string& key, const std::string& text) {
  store.set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

/// Keeps node 0's process, which may hold the store, alive until the other nodes have read why the run can't
/// begin.
void let_others_hear(c10d::Store& store, int node, int nodes, std::chrono::milliseconds patience) {
  try {
    write(store, key_of("heard", node), "");
    for (int other = 1; node == 0 && other < nodes; ++other) store.wait({key_of("heard", other)}, patience);
  } catch (const std::exception& error) {
    log::debug(std::string("another node did not read why the run can't begin: ") + error.what());
  }
}

}  // namespace

std::string address_for_gloo(const std::string& towards_store) {
  const auto wanted = environment_text("GLOO_SOCKET_IFNAME");
  if (!wanted) return towards_store;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    throw Error(std::string("the interfaces of this host can't be read: ") + std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::string address, names;
  bool is_there = false;
  for (const ifaddrs* each = list; each; each = each->ifa_next) {
    const std::string name = each->ifa_name;
    if ((", " + names + ",").find(", " + name + ",") == std::string::npos)
      names += (names.empty() ? "" : ", ") + name;
    if (name != *wanted) continue;
    is_there = true;
    if (!each->ifa_addr || !address.empty()) continue;
    if (each->ifa_addr->sa_family == AF_INET) address = digits_of(each->ifa_addr, sizeof(sockaddr_in));
    if (each->ifa_addr->sa_family == AF_INET6) address = digits_of(each->ifa_addr, sizeof(sockaddr_in6));
  }
  if (!is_there)
    throw Error("GLOO_SOCKET_IFNAME is '" + *wanted + "', and this host's interfaces are: " + names);
  if (address.empty())
    throw Error("GLOO_SOCKET_IFNAME is '" + *wanted +
                "', and that interface has no address; there are: " + names);
  return address;
}

void expect_nodes_reach_each_other(c10d::Store& store, int node, int nodes, const std::string& address,
                                   std::chrono::milliseconds patience) {
  const auto [listener, own_port] = listen_on(address);
  write(store, key_of("reach", node), address + " " + own_port);
  std::vector<ConnectAttempt> attempts;
  std::string problems;
  const auto add_problem = [&](const std::string& problem) {
    problems += (problems.empty() ? "" : "\n  ") + problem;
  };
  try {
    for (int other = 0; other < nodes; ++other) {
      const std::string place = read(store, key_of("reach", other), patience);
      const std::size_t space = place.find(' ');
      attempts.push_back({other, place.substr(0, space), place.substr(space + 1)});
    }
    if (const std::string mixed = mixed_families(attempts); !mixed.empty()) {
      let_others_hear(store, node, nodes, patience);
      throw Error(mixed);
    }
    attempts.erase(attempts.begin() + node);
    for (ConnectAttempt& attempt : attempts) begin(attempt);
    finish(attempts, Clock::now() + patience);
    for (const ConnectAttempt& attempt : attempts) {
      if (attempt.error) add_problem(problem_of(node, address, attempt, patience));
    }
    write(store, key_of("reached", node), problems);
    problems.clear();
    // Every other node may take as long as its own attempts.
    for (int other = 0; other < nodes; ++other) {
      const std::string told = read(store, key_of("reached", other), 3 * patience);
      if (!told.empty()) add_problem(told);
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string why = error.what();
    throw Error("node " + std::to_string(node) + " waited for the others to say where they are, and " +
                why.substr(0, why.find('\n')));
  }
  if (problems.empty()) return;
  let_others_hear(store, node, nodes, patience);
  throw Error(problems);
}

}  // namespace hookline
