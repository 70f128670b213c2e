// The scheduler that started this launcher, and what its variables say about the run's nodes.
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
  int nodes = 1;          // launchers, normally one on each node; 0: the scheduler does not say
  int node_rank = 0;
  std::string main_address;  // where rank 0's launcher runs; empty: the scheduler does not say
  std::string run_id;
  int main_port = 29500;  // the same on all nodes of a job, different for other jobs
  // The variables that these values were read from; empty if no variable gives the value.
  std::string nodes_from, rank_from, address_from;
  /// Why launchers can't run like this; empty if they can.
  std::string problem;
  bool is_problem_unless_ranked = false;  // no problem if [launch] node_rank is given
  std::string unsaid;                     // what the variables do not say, as a sentence; empty if nothing
  bool is_node_count_unsaid = false;      // nothing else is unsaid: [launch] nnodes may supply it
  std::vector<std::string> notes;         // variables that are set but unused, one sentence each

  /// Is anything known of this launcher's place? If not, `unsaid` says why.
  bool is_known() const { return !nodes_from.empty() || !rank_from.empty() || !problem.empty(); }
};

/// The value of an environment variable; nothing if it is unset or empty.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// The text of a file that a variable names.
struct NamedText {
  std::string text;
  std::string why_not;  // why it can't be read: "Permission denied"; empty if it can
};
using ReadText = std::function<NamedText(const std::string& file)>;

struct HostFacts {
  Lookup variable;
  ReadText read;
  std::string full_name;  // this host's, with its domain if that is known
};

/// What a scheduler's variables say here. The launcher of an MPI program says most, since it starts each
/// process; then comes the batch system, whose job it runs in. Nothing outside of all schedulers that
/// launcher/schedulers/README.md lists.
std::optional<Surroundings> surroundings(const HostFacts& here);

/// The environment and the files of this process.
HostFacts facts_here(std::string full_name);

/// The first host in Slurm's compressed list: gpu08 for "gpu[08-11,20],cpu1". Nothing if the list can't be
/// read.
std::optional<std::string> first_host(std::string_view list);

}  // namespace hookline
