#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/route.h"
#include "launcher/facts/facts.h"

namespace hookline {
namespace {

/// A number that the system reports for an interface. Some have none: loopback, bridges and interfaces that
/// are down have no speed.
Facts number_of(const std::string& interface, const std::string& name) {
  const std::string line = line_of("/sys/class/net/" + interface + "/" + name);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  return error == std::errc() && number >= 0 ? Facts(number) : Facts("unknown");
}

}  // namespace

Facts network_facts() {
  Facts facts = Facts::object();
  for (const Interface& each : own_interfaces()) {
    Facts& interface = facts[each.name];
    interface["up"] = each.is_up;
    interface["mbit_per_second"] = number_of(each.name, "speed");
    interface["mtu"] = number_of(each.name, "mtu");
    interface["addresses"].push_back(each.address);
  }
  return facts;
}

}  // namespace hookline
