#include <map>
#include <nlohmann/json.hpp>

#include "launcher/facts/facts.h"
#include "launcher/rendezvous/own_address.h"

namespace hookline {
namespace {

/// The system tells the speed of what has one: loopback, bridges and interfaces that are down have none.
std::string speed_of(const std::string& interface) {
  const std::string megabits = line_of("/sys/class/net/" + interface + "/speed");
  if (megabits.empty() || megabits.front() == '-') return "speed unknown";
  return megabits + " Mbit/s";
}

}  // namespace

Facts network_facts() {
  Facts facts = Facts::object();
  for (const Interface& each : own_interfaces()) {
    if (!facts.contains(each.name)) {
      facts[each.name] = (each.is_up ? "up, " : "down, ") + speed_of(each.name) + ", MTU " +
                         line_of("/sys/class/net/" + each.name + "/mtu") + ", ";
    } else {
      facts[each.name].get_ref<std::string&>() += ", ";
    }
    facts[each.name].get_ref<std::string&>() += each.address;
  }
  return facts;
}

}  // namespace hookline
