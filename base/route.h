// This host's addresses and those of other hosts.
#pragma once

#include <netdb.h>

#include <string>
#include <vector>

namespace hookline {

/// This host's address, in digits, on the route to `other`, an address looked up for SOCK_DGRAM. Empty if no
/// route leads there.
std::string own_address_towards(const addrinfo& other);

/// The same for the first address of `host` that a route leads to. Empty if there is none, and if `host` does
/// not resolve: then `why` is the resolver's reason.
std::string own_address_towards(const std::string& host, std::string& why);

/// An address of one of this host's interfaces.
struct Interface {
  std::string address, name;
  bool is_ipv4 = false, is_up = false, is_loopback = false;
};

/// Empty if the system does not tell.
std::vector<Interface> own_interfaces();

/// Does an interface of this host have this address, in digits?
bool is_here(const std::string& address);

/// The addresses of `host`, in digits. If there are none, `why` is the resolver's reason.
std::vector<std::string> addresses_of(const std::string& host, std::string& why);

}  // namespace hookline
