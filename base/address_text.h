// An address with its port, as text.
#pragma once

#include <string>

namespace hookline {

/// "node1:29500", "[fd00::1]:29500": an IPv6 address in digits has colons of its own.
inline std::string host_and_port(const std::string& host, int port) {
  const bool has_colons = host.find(':') != std::string::npos;
  return (has_colons ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace hookline
