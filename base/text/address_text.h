// An address with its port, as text.
#pragma once

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <string_view>

namespace hookline {

/// "node1:29500", "[fd00::1]:29500": an IPv6 address in digits has colons of its own.
inline std::string host_and_port(const std::string& host, int port) {
  const bool has_colons = host.find(':') != std::string::npos;
  return (has_colons ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

/// An internet address in digits; empty if it is none.
inline std::string digits_of(const sockaddr* address, socklen_t size) {
  char digits[NI_MAXHOST] = "";
  const bool is_internet = address->sa_family == AF_INET || address->sa_family == AF_INET6;
  return is_internet && ::getnameinfo(address, size, digits, sizeof digits, nullptr, 0, NI_NUMERICHOST) == 0
             ? digits
             : "";
}

/// Of an IPv4 address that is written as IPv6 ("::ffff:10.0.0.1"), its own form ("10.0.0.1").
inline std::string without_ipv4_prefix(const std::string& address) {
  constexpr std::string_view kPrefix = "::ffff:";
  const bool has_prefix = address.starts_with(kPrefix) && address.find('.') != std::string::npos;
  return has_prefix ? address.substr(kPrefix.size()) : address;
}

/// Is it a loopback address, in digits?
inline bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

/// Is it an address in digits, of the family AF_INET or AF_INET6?
inline bool is_address(const std::string& host, int family) {
  in6_addr digits{};
  return inet_pton(family, host.c_str(), &digits) == 1;
}

inline bool is_in_digits(const std::string& host) {
  return is_address(host, AF_INET) || is_address(host, AF_INET6);
}

}  // namespace hookline
