// An address with its port, as text.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

namespace hookline {

/// "node1:29500", "[fd00::1]:29500": an IPv6 address in digits has colons of its own.
inline std::string host_and_port(const std::string& host, int port) {
  const bool has_colons = host.find(':') != std::string::npos;
  return (has_colons ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

/// Is it an address in digits, of the family AF_INET or AF_INET6?
inline bool is_address(const std::string& host, int family) {
  in6_addr digits{};
  return inet_pton(family, host.c_str(), &digits) == 1;
}

}  // namespace hookline
