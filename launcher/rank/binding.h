// Which cores each rank may run on.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace hookline {

/// Logical processors, by the system's numbers, in ascending order.
using Cores = std::vector<int>;

/// For each of `ranks`: "core" divides the physical cores that this process may use among them, neighbours
/// together; "numa" gives each the whole of a NUMA node. Where there are more ranks than cores or nodes,
/// neighbouring ranks share. `synthetic` describes a machine to do it for, as hwloc has it ("numa:2 core:4
/// pu:2"); unset: this one. Throws std::runtime_error if hwloc can't tell what the machine has.
std::vector<Cores> cores_of_ranks(const std::string& binding, int ranks,
                                  const std::optional<std::string>& synthetic = {});

/// "0-3,8"
std::string cores_text(const Cores& cores);

}  // namespace hookline
