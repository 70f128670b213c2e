// The scheduler that a launcher was started by, and what its variables say of the run's nodes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hookline {

inline constexpr const char* kSlurm = "Slurm";

/// One launcher's place among those that a scheduler has started.
struct Surroundings {
  std::string scheduler;  // "Slurm"
  int nodes = 1;          // launchers, one on each node as a rule; 0: the scheduler does not say
  int node_rank = 0;
  std::string main_address;  // of the launcher of rank 0; empty: the scheduler does not say
  std::string run_id;
  int main_port = 29500;  // the same on all nodes, and another for other jobs
  // The variables that this was read from; empty for what none says.
  std::string nodes_from, rank_from, address_from;
  /// Why launchers can't run like this; empty if they can.
  std::string problem;
  bool is_problem_unless_ranked = false;  // it is none where [launch] node_rank is given
  std::string unsaid;                 // what the variables can't tell, as a sentence; empty if that is all
  bool is_node_count_unsaid = false;  // and nothing else: [launch] nnodes may say it
  std::vector<std::string> notes;     // variables that are set and were not used, a sentence each

  /// Is anything known of this launcher's place? If not, `unsaid` says why.
  bool is_known() const { return !nodes_from.empty() || !rank_from.empty() || !problem.empty(); }
};

/// The value of an environment variable; nothing if it is unset or empty.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// The text of a file that a variable names.
struct NamedText {
  std::string text;
  std::string why_not;  // it can't be read: "Permission denied"; empty if it can
};
using ReadText = std::function<NamedText(const std::string& file)>;

struct HostFacts {
  Lookup variable;
  ReadText read;
  std::string full_name;  // this host's, with its domain if that is known
};

/// What starts each process of an MPI program says most, then the batch system, whose job that is in. Nothing outside of all
/// those that launcher/README.md lists.
std::optional<Surroundings> surroundings(const HostFacts& here);

/// This process's environment and files.
HostFacts facts_here(std::string full_name);

/// The first host of Slurm's compressed list: "gpu[08-11,20],cpu1" has gpu08. Nothing if the list can't be read.
std::optional<std::string> first_host(std::string_view list);

}  // namespace hookline
