#include "launcher/rank/binding.h"

#include <hwloc.h>

#include <memory>
#include <stdexcept>

namespace hookline {
namespace {

using Topology = std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)>;

Topology load_topology(const std::optional<std::string>& synthetic) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) throw std::runtime_error("hwloc can't be started");
  Topology topology(made, hwloc_topology_destroy);
  const int set_up = synthetic
                         ? hwloc_topology_set_synthetic(made, synthetic->c_str())
                         : hwloc_topology_set_flags(made, HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM |
                                                              HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING);
  if (set_up != 0 || hwloc_topology_load(made) != 0)
    throw std::runtime_error("hwloc can't tell which cores this machine has");
  return topology;
}

Cores cores_in(hwloc_const_bitmap_t set) {
  Cores cores;
  for (int core = hwloc_bitmap_first(set); core >= 0; core = hwloc_bitmap_next(set, core))
    cores.push_back(core);
  return cores;
}

std::vector<Cores> divide_cores(hwloc_topology_t topology, int ranks) {
  hwloc_obj_t root = hwloc_get_root_obj(topology);
  std::vector<hwloc_cpuset_t> sets(static_cast<std::size_t>(ranks));
  if (hwloc_distrib(topology, &root, 1, sets.data(), static_cast<unsigned>(ranks),
                    hwloc_get_type_or_below_depth(topology, HWLOC_OBJ_CORE), 0) != 0)
    throw std::runtime_error("hwloc can't divide the cores of this machine");
  std::vector<Cores> result;
  for (const hwloc_cpuset_t set : sets) {
    result.push_back(cores_in(set));
    hwloc_bitmap_free(set);
  }
  return result;
}

std::vector<Cores> take_nodes(hwloc_topology_t topology, int ranks) {
  std::vector<Cores> nodes;
  for (hwloc_obj_t node = nullptr; (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node));)
    if (Cores cores = cores_in(node->cpuset); !cores.empty())
      nodes.push_back(std::move(cores));  // a node without cores has only memory
  if (nodes.empty()) throw std::runtime_error("hwloc finds no NUMA node with cores that may be used");
  std::vector<Cores> result;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank)
    result.push_back(nodes[static_cast<std::size_t>(ranks) <= nodes.size()
                               ? rank
                               : rank * nodes.size() / static_cast<std::size_t>(ranks)]);
  return result;
}

}  // namespace

std::vector<Cores> cores_of_ranks(const std::string& binding, int ranks,
                                  const std::optional<std::string>& synthetic) {
  const Topology topology = load_topology(synthetic);
  return binding == "numa" ? take_nodes(topology.get(), ranks) : divide_cores(topology.get(), ranks);
}

std::string cores_text(const Cores& cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cores[i]);
    if (last > i) text += "-" + std::to_string(cores[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace hookline
