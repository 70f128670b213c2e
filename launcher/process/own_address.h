// This host's addresses.
#pragma once

#include <string>
#include <vector>

namespace hookline {

/// An address of one of this machine's interfaces.
struct Interface {
  std::string address, name;
  bool is_ipv4 = false, is_up = false, is_loopback = false;
};

std::vector<Interface> own_interfaces();

/// True if `host` resolves to an address of one of this machine's interfaces. Throws std::runtime_error,
/// which names `host`, if it does not resolve.
bool is_own_address(const std::string& host);

/// The interface through which connections to `address`, in digits, go; empty if that is unknown. Connections
/// to an address of this host's own go, for this purpose, through the interface that has it.
std::string interface_towards(const std::string& address);

/// "10.0.0.1, 192.168.1.7": of this machine's interfaces, without loopback and IPv6 link-local ones.
std::string own_addresses();

}  // namespace hookline
