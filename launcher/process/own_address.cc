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

/// What to do if `host` was written as "10.0.0.1:29500", as torchrun's endpoints are; else empty.
std::string port_advice(const std::string& host) {
  const auto colon = host.find(':');
  if (colon == host.npos || host.find_first_not_of("0123456789", colon + 1) != host.npos) return "";
  return "; the port belongs in main_port";
}

}  // namespace

bool is_own_address(const std::string& host) {
  std::string why;
  const std::vector<std::string> addresses = addresses_of(host, why);
  if (addresses.empty())
    throw std::runtime_error("main_address '" + host + "' can't be resolved: " + why + port_advice(host));
  const std::set<std::string> own = interface_addresses();
  return std::any_of(addresses.begin(), addresses.end(),
                     [&](const std::string& each) { return own.contains(each) || is_loopback(each); });
}

bool is_name_of_loopback(const std::string& host) {
  if (is_in_digits(host)) return false;
  std::string ignored;
  const std::vector<std::string> addresses = addresses_of(host, ignored);
  return !addresses.empty() && std::all_of(addresses.begin(), addresses.end(), is_loopback);
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
