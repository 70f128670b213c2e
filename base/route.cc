#include "base/route.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/file_descriptor.h"
#include "base/text/address_text.h"

namespace hookline {

// Connecting a datagram socket chooses a route but sends nothing.
std::string own_address_towards(const addrinfo& other) {
  const FileDescriptor socket(::socket(other.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  const bool is_known = socket.is_open() && ::connect(socket.get(), other.ai_addr, other.ai_addrlen) == 0 &&
                        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0;
  return is_known ? digits_of(reinterpret_cast<const sockaddr*>(&own), length) : "";
}

std::string own_address_towards(const std::string& host, std::string& why) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (const int error = ::getaddrinfo(host.c_str(), "1", &hints, &found); error != 0) {
    why = ::gai_strerror(error);
    return "";
  }
  std::string address;
  for (const addrinfo* at = found; at && address.empty(); at = at->ai_next)
    address = own_address_towards(*at);
  ::freeaddrinfo(found);
  return address;
}

std::vector<Interface> own_interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    if (!entry->ifa_addr) continue;
    const bool is_ipv4 = entry->ifa_addr->sa_family == AF_INET;
    const std::string address =
        digits_of(entry->ifa_addr, is_ipv4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (address.empty()) continue;
    interfaces.push_back({address, entry->ifa_name, is_ipv4, (entry->ifa_flags & IFF_UP) != 0,
                          (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return interfaces;
}

bool is_here(const std::string& address) {
  const std::vector<Interface> own = own_interfaces();
  return std::any_of(own.begin(), own.end(), [&](const Interface& each) { return each.address == address; });
}

std::vector<std::string> addresses_of(const std::string& host, std::string& why) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  std::vector<std::string> addresses;
  for (const addrinfo* at = found; error == 0 && at; at = at->ai_next) {
    std::string digits = digits_of(at->ai_addr, at->ai_addrlen);
    if (!digits.empty() && std::find(addresses.begin(), addresses.end(), digits) == addresses.end())
      addresses.push_back(std::move(digits));
  }
  if (found) ::freeaddrinfo(found);
  if (addresses.empty()) why = ::gai_strerror(error);
  return addresses;
}

}  // namespace hookline
