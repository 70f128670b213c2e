// What MPI launchers tell each process. None of them names the host of rank 0. Unless all processes are
// on this host, it is that of Open MPI's mpirun, or the first host of the batch system's job (the second
// under jsrun) or of Hydra's host file.
#include <algorithm>

#include "base/lines.h"
#include "launcher/schedulers/surroundings_parts.h"

namespace hookline {
namespace {

/// The names of an MPI launcher's variables.
struct MpiNames {
  const char* scheduler;
  const char *size, *rank, *local_size;
};

/// The host of mpirun itself, in "3145728000.0;tcp://10.0.0.1,172.17.0.1:33979".
std::string address_in_uri(const std::string& uri) {
  const auto begin = uri.find("tcp://");
  if (begin == uri.npos) return "";
  const auto from = begin + 6, to = uri.find_first_of(",:", from);
  return uri.substr(from, to == uri.npos ? to : to - from);
}

/// The first host in a file of Hydra's: one "node1:8" a line, comments after #.
std::string first_of_host_file(const std::string& text) {
  for (const std::string_view line : lines_of(text)) {
    const std::size_t from = line.find_first_not_of(" \t");
    if (from != line.npos && line[from] != '#')
      return std::string(line.substr(from, line.find_first_of(" \t:#", from) - from));
  }
  return "";
}

/// Sets the address from the host file of Hydra's mpiexec. False if that does not name it.
bool find_main_in_host_file(const HostFacts& here, Surroundings& place) {
  const auto file = here.variable("HYDRA_HOST_FILE");
  if (!file) return false;
  const NamedText content = here.read(*file);
  place.main_address = first_of_host_file(content.text);
  if (!content.why_not.empty())
    place.notes.push_back("HYDRA_HOST_FILE=" + *file + " can't be read: " + content.why_not);
  else if (place.main_address.empty())
    place.notes.push_back("HYDRA_HOST_FILE=" + *file + " names no hosts");
  if (place.main_address.empty()) return false;
  place.address_from = "HYDRA_HOST_FILE";
  return true;
}

bool find_main_of_job(const HostFacts& here, Surroundings& place) {
  const JobHosts hosts = hosts_of_job(here);
  if (!hosts.unusable.empty()) place.notes.push_back(hosts.unusable);
  if (hosts.names.empty()) return false;
  place.main_address = hosts.names.front();
  place.address_from = hosts.from;
  return true;
}

/// Sets where the nodes meet.
void find_main(const HostFacts& here, const MpiNames& names, Surroundings& place) {
  if (place.nodes == 1) return;  // a single node meets nobody
  const auto local = number_in(here.variable(names.local_size));
  if (place.nodes > 0 && local == place.nodes) {
    place.main_address = "127.0.0.1";
    place.address_from = names.local_size;
    return;
  }
  // A file that was given to Hydra is more precise than the job. For others the variable may be left over.
  if (place.scheduler == "Hydra" && find_main_in_host_file(here, place)) return;
  if (find_main_of_job(here, place)) return;
  if (place.scheduler == "PMI" && find_main_in_host_file(here, place)) return;
  leave_unsaid(place, place.scheduler + "'s variables do not say where the nodes meet");
}

/// Sets `nodes` to 0 if the size is unknown. Without a rank, the place is not known.
std::optional<Surroundings> place_by(const HostFacts& here, const MpiNames& names) {
  if (!here.variable(names.rank)) return std::nullopt;
  Surroundings place;
  place.scheduler = names.scheduler;
  place.nodes = 0;
  const auto rank = node_rank_of(here, names.rank, place);
  const auto size = node_count_of(here, names.size, place);
  if (!rank || !place.problem.empty()) return place;
  place.node_rank = *rank;
  place.rank_from = names.rank;
  if (size && *rank >= *size) {
    place.problem = names.rank + ("=" + std::to_string(*rank)) + " is not below " + names.size + "=" +
                    std::to_string(*size) +
                    ", and nodes are counted from 0: set [launch] nnodes = 1 to use " +
                    "this node alone, or correct the variables";
  }
  if (size) {
    place.nodes = *size;
    place.nodes_from = names.size;
  } else if (place.unsaid.empty()) {
    place.unsaid = place.scheduler + "'s variables do not say how many nodes there are";
    place.is_node_count_unsaid = true;
  }
  const std::string job = name_of_job(here.variable);
  if (!job.empty()) {
    place.run_id = job;
    place.main_port = port_of_job(job);
  }
  return place;
}

/// Drops a rank without a size, since the variables of another scheduler may give both.
bool is_useless(Surroundings& place) {
  if (place.nodes > 0) return false;
  place.rank_from.clear();
  return true;
}

}  // namespace

std::optional<Surroundings> jsrun_surroundings(const HostFacts& here) {
  const MpiNames names = {"jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_SIZE"};
  auto place = place_by(here, names);
  if (!place || is_useless(*place)) return place;
  find_main(here, names, *place);
  // LSF's list begins with the host that jsrun was called on, which runs no ranks.
  if (JobHosts hosts = hosts_of_job(here); place->address_from == hosts.from && hosts.names.size() > 1)
    place->main_address = hosts.names[1];
  return place;
}

std::optional<Surroundings> open_mpi_surroundings(const HostFacts& here) {
  const MpiNames names = {"Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                          "OMPI_COMM_WORLD_LOCAL_SIZE"};
  auto place = place_by(here, names);
  if (!place || is_useless(*place)) return place;
  const std::string job = here.variable("PMIX_NAMESPACE").value_or("0");
  place->run_id = "mpirun-" + job;
  place->main_port = port_of_job(job);
  const auto uri = here.variable("OMPI_MCA_orte_hnp_uri");
  const bool is_one_host = number_in(here.variable(names.local_size)) == place->nodes;
  if (uri && !is_one_host) {
    place->main_address = address_in_uri(*uri);
    place->address_from = "OMPI_MCA_orte_hnp_uri";
  }
  if (place->main_address.empty()) find_main(here, names, *place);
  return place;
}

std::optional<Surroundings> pmi_surroundings(const HostFacts& here) {
  for (const MpiNames& names :
       {MpiNames{"PALS", "PMI_SIZE", "PALS_RANKID", "PALS_LOCAL_SIZE"},
        MpiNames{"MVAPICH", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
        MpiNames{"Hydra", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS"},
        MpiNames{"PMI", "PMI_SIZE", "PMI_RANK", "PMI_LOCAL_SIZE"}}) {
    auto place = place_by(here, names);
    const bool may_be_another = names.scheduler == std::string("Hydra");  // its ranks have PMI's names too
    if (!place || (may_be_another && !here.variable(names.local_size))) continue;
    if (!place->is_known()) return place;
    find_main(here, names, *place);
    if (const auto id = here.variable("PALS_APID")) {
      place->run_id = "pals-" + *id;
      place->main_port = port_of_job(*id);
    }
    return place;
  }
  return std::nullopt;
}

std::optional<Surroundings> pmix_surroundings(const HostFacts& here) {
  const auto text = here.variable("PMIX_RANK");
  if (!text) return std::nullopt;
  Surroundings place;
  place.scheduler = "PMIx";
  place.nodes = 0;
  const auto rank = node_rank_of(here, "PMIX_RANK", place);
  if (!rank) return place;
  place.node_rank = *rank;
  place.rank_from = "PMIX_RANK";
  if (const auto name = here.variable("PMIX_NAMESPACE")) {
    place.run_id = "pmix-" + *name;
    place.main_port = port_of_job(*name);
  }
  find_main_of_job(here, place);
  place.unsaid = "PMIX_RANK=" + *text + ", and PMIx's variables do not say how many nodes there are";
  place.is_node_count_unsaid = true;
  return place;
}

}  // namespace hookline
