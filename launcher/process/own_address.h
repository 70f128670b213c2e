// Where nodes meet, seen from this host: which addresses are its own, and which interface leads there.
#pragma once

#include <string>

namespace hookline {

/// True if `host` resolves to an address of one of this machine's interfaces, or to a loopback address:
/// Debian has a host resolve its own name to 127.0.1.1, which no interface has. Throws std::runtime_error,
/// which names `host`, if it does not resolve.
bool is_own_address(const std::string& host);

/// Is `host` a name that this host knows by loopback addresses alone?
bool is_name_of_loopback(const std::string& host);

/// Has this host an address, apart from loopback and link-local ones, of the family of `address`? Also true
/// if `address` is a name, or is itself a loopback or link-local address.
bool has_family_of(const std::string& address);

/// The interface through which connections to `address` go; empty if it is not known, or if `address` is not
/// IPv4 in digits: given an interface's name in an IPv6 run, Gloo might take an address of it that is valid
/// on its link alone. An address of this host's own counts as reached through the interface that has it.
std::string interface_towards(const std::string& address);

/// "10.0.0.1, 192.168.1.7": of this machine's interfaces, without loopback and IPv6 link-local ones.
std::string own_addresses();

}  // namespace hookline
