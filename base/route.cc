#include "base/route.h"

#include <ifaddrs.h>
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

bool is_here(const std::string& address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* each = list; each; each = each->ifa_next) {
    if (!each->ifa_addr) continue;
    const socklen_t size = each->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (digits_of(each->ifa_addr, size) == address) return true;
  }
  return false;
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
  if (addresses.empty()) why = "'" + host + "' is not known here: " + ::gai_strerror(error);
  return addresses;
}

}  // namespace hookline
