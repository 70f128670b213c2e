// The scheduler that a launcher was started by, and what its variables say of the run's nodes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace hookline {

inline constexpr const char* kSlurm = "Slurm";

/// One launcher's place among those that a scheduler has started.
struct Surroundings {
  std::string scheduler;  // "Slurm"
  int nodes = 1;          // launchers, one on each node as a rule
  int node_rank = 0;
  std::string main_address;  // of the launcher of rank 0; empty: the scheduler does not say
  std::string run_id;
  int main_port = 29500;  // the same on all nodes, and another for other jobs
  // The variables that this was read from.
  std::string nodes_from, rank_from, address_from;
  /// Why launchers can't run like this; empty if they can.
  std::string problem;
};

/// The value of an environment variable; nothing if it is unset or empty.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// Nothing outside of Slurm steps, Open MPI's mpirun and Kubernetes' indexed jobs. `full_name`: this host's name, with its
/// domain.
std::optional<Surroundings> surroundings(const Lookup& variable, const std::string& full_name);

/// The first host of Slurm's compressed list: "gpu[08-11,20],cpu1" has gpu08. Nothing if the list can't be read.
std::optional<std::string> first_host(std::string_view list);

}  // namespace hookline
