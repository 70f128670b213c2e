// Looks up addresses: this host's own on the route to another host, those of a host name, and whether an
// address is this host's.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"
#include "base/text/address_text.h"

namespace hookline {

/// This host's address, in digits, on the route to `other`, which is for datagrams. Connecting a datagram
/// socket chooses a route but sends nothing. Empty if no route leads there.
inline std::string own_address_towards(const addrinfo& other) {
  const FileDescriptor socket(::socket(other.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  const bool is_known = socket.is_open() && ::connect(socket.get(), other.ai_addr, other.ai_addrlen) == 0 &&
                        ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0;
  return is_known ? digits_of(reinterpret_cast<const sockaddr*>(&own), length) : "";
}

/// Is `address`, in digits, one of this host's?
inline bool is_here(const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), nullptr, &hints, &found) != 0) return false;
  const FileDescriptor socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const bool is_bound = socket.is_open() && ::bind(socket.get(), found->ai_addr, found->ai_addrlen) == 0;
  ::freeaddrinfo(found);
  return is_bound;
}

/// The addresses of `host`, in digits. If there are none, `why` says why.
inline std::vector<std::string> addresses_of(const std::string& host, std::string& why) {
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
