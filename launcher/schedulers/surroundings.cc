#include "launcher/schedulers/surroundings.h"

#include <charconv>
#include <utility>

#include "base/regular_file.h"
#include "config/schema/node_count.h"
#include "launcher/process/machine.h"
#include "launcher/schedulers/surroundings_parts.h"

namespace hookline {
namespace {

// Below the ports that the system assigns to outgoing connections.
constexpr int kFirstPort = 15000, kPorts = 15000;

int port_of(std::size_t job) { return kFirstPort + static_cast<int>(job % kPorts); }

std::optional<Surroundings> kubernetes(const HostFacts& here) {
  const auto text = here.variable("JOB_COMPLETION_INDEX");
  if (!text) return std::nullopt;
  Surroundings place;
  place.scheduler = "Kubernetes";
  place.nodes = 0;  // which its variables do not say
  const auto index = node_rank_of(here, "JOB_COMPLETION_INDEX", place);
  if (!index) return place;
  place.node_rank = *index;
  place.rank_from = "JOB_COMPLETION_INDEX";
  place.unsaid = "JOB_COMPLETION_INDEX=" + *text + ", and nothing says how many nodes Kubernetes' job has";
  place.is_node_count_unsaid = true;
  // A pod of an indexed job is called JOB-INDEX, in the domain of its headless service.
  const std::string name = here.full_name.substr(0, here.full_name.find('.')),
                    end = "-" + std::to_string(*index);
  if (name.size() > end.size() && name.ends_with(end)) {
    const std::string job = name.substr(0, name.size() - end.size());
    place.run_id = job;
    place.main_address = job + "-0" + here.full_name.substr(name.size());
    place.address_from = "the pod's name, " + here.full_name;
  }
  return place;
}

/// A list of hosts without the job that it belongs to.
std::optional<Surroundings> host_file_alone(const HostFacts& here) {
  for (const auto& [file, job] :
       {std::pair("PBS_NODEFILE", "PBS_JOBID"), std::pair("LSB_DJOB_HOSTFILE", "LSB_JOBID"),
        std::pair("PE_HOSTFILE", "JOB_ID")}) {
    const auto name = here.variable(file);
    if (!name || here.variable(job)) continue;
    Surroundings place;
    place.nodes = 0;
    place.unsaid = file + ("=" + *name) + " is not used, since " + job + " is not set";
    return place;
  }
  return std::nullopt;
}

}  // namespace

std::optional<long long> number_in(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  long long value = 0;
  const char* const end = text->data() + text->size();
  const auto [last, problem] = std::from_chars(text->data(), end, value);
  if (problem != std::errc() || last != end || value < 0) return std::nullopt;
  return value;
}

int port_of_job(const std::string& job) {
  const auto number = number_in(job);
  return port_of(number ? static_cast<std::size_t>(*number) : std::hash<std::string>()(job));
}

void leave_unsaid(Surroundings& place, const std::string& sentence) {
  place.unsaid += (place.unsaid.empty() ? "" : "; ") + sentence;
  place.is_node_count_unsaid = false;
}

std::optional<int> number_of(const HostFacts& here, const char* name, int least, int most,
                             Surroundings& place) {
  const auto text = here.variable(name);
  if (!text) return std::nullopt;
  if (const auto number = number_in(text); number && *number >= least && *number <= most)
    return static_cast<int>(*number);
  const std::string wrong =
      name + ("=" + *text) + " is not a number from " + std::to_string(least) + " to " + std::to_string(most);
  if (text->find_first_not_of("0123456789") == text->npos)
    place.problem =
        wrong + ", which [launch] nnodes and node_rank are limited to: start a launcher on each of at most " +
        std::to_string(NodeCount::kMost) + " nodes, or set [launch] nnodes = 1 to use this one alone";
  else
    leave_unsaid(place, wrong);
  return std::nullopt;
}

std::optional<int> node_count_of(const HostFacts& here, const char* name, Surroundings& place) {
  return number_of(here, name, 1, NodeCount::kMost, place);
}

std::optional<int> node_rank_of(const HostFacts& here, const char* name, Surroundings& place) {
  return number_of(here, name, 0, NodeCount::kMost - 1, place);
}

std::optional<Surroundings> surroundings(const HostFacts& here) {
  // An MPI launcher may run inside a batch job, and both inside a pod. jsrun is asked before Open MPI, whose
  // variables it sets too. srun sets PMI's variables too, but there the batch system's say more.
  const bool is_step = here.variable("SLURM_STEP_ID").has_value();
  const bool is_by_hydra = here.variable("MPI_LOCALNRANKS") || here.variable("MPI_LOCALRANKID");
  std::optional<Surroundings> unknown;  // the first scheduler whose variables are set but can't be used
  for (const auto& read :
       {jsrun_surroundings, open_mpi_surroundings, pmi_surroundings, slurm_surroundings, pmix_surroundings,
        pbs_surroundings, lsf_surroundings, grid_engine_surroundings, kubernetes, host_file_alone}) {
    if (read == pmi_surroundings && is_step && !is_by_hydra) continue;
    auto place = read(here);
    if (!place) continue;
    if (place->is_known()) {
      if (unknown)
        place->notes.push_back(unknown->unsaid + "; " + place->scheduler + "'s variables are used");
      return place;
    }
    if (!unknown) unknown = std::move(place);
  }
  return unknown;
}

HostFacts facts_here(std::string full_name) {
  return {environment_variable,
          [](const std::string& file) -> NamedText {
            constexpr std::uint64_t kMostBytes = 16 << 20;  // far more than the names of all hosts
            InputFile in(file, kMostBytes);
            std::string text = in.read_all();
            if (in.problem() != FileProblem::none) return {"", in.why()};
            return {std::move(text), ""};
          },
          std::move(full_name)};
}

}  // namespace hookline
