#include "launcher/process/own_address.h"

#include <netdb.h>

#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>
#include <vector>

#include "base/route.h"
#include "base/text/address_text.h"

namespace hookline {
namespace {

bool is_of_host_or_link(const std::string& address) {
  return is_loopback(address) || address.starts_with("fe80:");
}

std::set<std::string> interface_addresses() {
  std::set<std::string> addresses;
  for (const Interface& each : own_interfaces()) addresses.insert(each.address);
  return addresses;
}

}  // namespace

bool is_own_address(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failure = getaddrinfo(host.c_str(), nullptr, &hints, &found); failure != 0)
    throw std::runtime_error("main_address '" + host + "' can't be resolved: " + gai_strerror(failure));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const std::set<std::string> own = interface_addresses();
  for (const addrinfo* entry = found; entry; entry = entry->ai_next) {
    if (own.contains(digits_of(entry->ai_addr, entry->ai_addrlen))) return true;
  }
  return false;
}

bool has_family_of(const std::string& address) {
  const bool is_ipv4 = is_address(address, AF_INET);
  if (!is_in_digits(address) || is_of_host_or_link(address)) return true;
  const std::vector<Interface> own = own_interfaces();
  return std::any_of(own.begin(), own.end(), [&](const Interface& each) {
    return each.is_ipv4 == is_ipv4 && !is_of_host_or_link(each.address);
  });
}

std::string interface_towards(const std::string& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_family = AF_INET;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), "1", &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const std::string own = own_address_towards(*found);
  for (const Interface& each : own_interfaces())
    if (each.address == own) return each.name;
  return "";
}

std::string own_addresses() {
  std::string text;
  for (const std::string& address : interface_addresses()) {
    if (is_of_host_or_link(address)) continue;
    text += (text.empty() ? "" : ", ") + address;
  }
  return text.empty() ? "none but loopback" : text;
}

}  // namespace hookline
