// The hostfile of DeepSpeed (and of Open MPI, which writes slots in the same way).
#include <charconv>
#include <set>
#include <sstream>

#include "base/lines.h"
#include "launcher/import/launchers.h"

namespace hookline {
namespace {

struct Host {
  std::string name;
  int slots = 0;
};

/// The host in a line; nothing if there is none.
std::optional<Host> host_of(std::string line, int number) {
  line = line.substr(0, line.find('#'));
  std::istringstream words(line);
  Host host;
  std::string slots, more;
  if (!(words >> host.name)) return std::nullopt;
  const std::string where = "line " + std::to_string(number) + ": ";
  constexpr std::string_view kSlots = "slots=";
  if (!(words >> slots) || !slots.starts_with(kSlots) || words >> more)
    throw ImportError(where + "write a host as 'NAME slots=N'");
  const char* const end = slots.data() + slots.size();
  const auto read = std::from_chars(slots.data() + kSlots.size(), end, host.slots);
  if (read.ec != std::errc() || read.ptr != end || host.slots < 1)
    throw ImportError(where + "'" + slots + "' must be a number of ranks, at least 1");
  return host;
}

}  // namespace

Imported import_hostfile(const std::string& text) {
  Imported result;
  result.kind = "a hostfile";
  std::vector<Host> hosts;
  std::set<std::string> names;
  int number = 0;
  for (const std::string_view line : lines_of(text)) {
    const auto host = host_of(std::string(line), ++number);
    if (!host) continue;
    if (!names.insert(host->name).second)
      throw ImportError("line " + std::to_string(number) + ": host '" + host->name + "' is given twice");
    hosts.push_back(*host);
  }
  if (hosts.empty()) throw ImportError("it names no host");
  bool all_alike = true;
  for (const Host& host : hosts) all_alike = all_alike && host.slots == hosts[0].slots;
  if (all_alike) {
    result.carry("launch.processes_per_node", std::to_string(hosts[0].slots),
                 "slots=" + std::to_string(hosts[0].slots));
  } else {
    for (const Host& host : hosts)
      result.leave_out(
          host.name + " slots=" + std::to_string(host.slots),
          "hosts have different numbers of slots: on this one, launch with --set launch.processes_per_node=" +
              std::to_string(host.slots));
  }
  if (hosts.size() > 1) {
    result.carry("launch.nnodes", std::to_string(hosts.size()),
                 "a list of " + std::to_string(hosts.size()) + " hosts");
    result.carry("rendezvous.main_address", hosts[0].name, "the first host");
  }
  return result;
}

}  // namespace hookline
