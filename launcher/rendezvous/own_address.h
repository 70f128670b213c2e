// Is a name or an address this host's?
#pragma once

#include <string>

namespace hookline {

/// True if `host` resolves to an address of one of this machine's interfaces. Throws std::runtime_error, which names `host`,
/// if it does not resolve.
bool is_own_address(const std::string& host);

/// "10.0.0.1, 192.168.1.7": of this machine's interfaces, without loopback.
std::string own_addresses();

}  // namespace hookline
