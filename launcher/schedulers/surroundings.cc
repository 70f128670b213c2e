#include "launcher/schedulers/surroundings.h"

#include <cctype>
#include <charconv>

namespace hookline {
namespace {

// Below those that the system hands out by itself.
constexpr int kFirstPort = 15000, kPorts = 15000;

std::optional<long long> number(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  long long value = 0;
  const char* const end = text->data() + text->size();
  const auto [last, problem] = std::from_chars(text->data(), end, value);
  if (problem != std::errc() || last != end || value < 0) return std::nullopt;
  return value;
}

int port_of(std::size_t job) { return kFirstPort + static_cast<int>(job % kPorts); }

std::optional<Surroundings> slurm(const Lookup& variable) {
  const auto job = number(variable("SLURM_JOB_ID"));
  if (!job) return std::nullopt;
  Surroundings place;
  place.scheduler = kSlurm;
  place.run_id = "slurm-" + std::to_string(*job);
  place.main_port = port_of(static_cast<std::size_t>(*job));
  const auto step = number(variable("SLURM_STEP_ID"));
  if (!step) {
    // The batch script itself, or salloc's shell: on the first node alone.
    const auto nodes = number(variable("SLURM_JOB_NUM_NODES"));
    if (!nodes || *nodes < 2) return std::nullopt;
    place.nodes_from = "SLURM_JOB_NUM_NODES";
    place.problem =
        "this job has " + std::to_string(*nodes) +
        " nodes, and the launcher was started on one of them only: start it on each, with 'srun "
        "--ntasks-per-node=1 hookline launch …', or set [launch] nnodes = 1 to use this one alone";
    return place;
  }
  place.run_id += "-" + std::to_string(*step);
  place.nodes_from = variable("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
  place.rank_from = "SLURM_NODEID";
  place.address_from = variable("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  place.nodes = static_cast<int>(number(variable(place.nodes_from.c_str())).value_or(1));
  place.node_rank = static_cast<int>(number(variable("SLURM_NODEID")).value_or(0));
  const auto list = variable(place.address_from.c_str());
  const auto host = list ? first_host(*list) : std::nullopt;
  place.main_address = host.value_or("");
  if (number(variable("SLURM_LOCALID")).value_or(0) > 0)
    place.problem =
        "Slurm has started several launchers on this node (SLURM_LOCALID is above 0), and each starts ranks "
        "of its own: srun needs --ntasks-per-node=1";
  return place;
}

/// "3145728000.0;tcp://10.0.0.1,172.17.0.1:33979": the host of mpirun itself.
std::string address_in_uri(const std::string& uri) {
  const auto begin = uri.find("tcp://");
  if (begin == uri.npos) return "";
  const auto from = begin + 6, to = uri.find_first_of(",:", from);
  return uri.substr(from, to == uri.npos ? to : to - from);
}

std::optional<Surroundings> open_mpi(const Lookup& variable) {
  const auto size = number(variable("OMPI_COMM_WORLD_SIZE")), rank = number(variable("OMPI_COMM_WORLD_RANK"));
  if (!size || !rank) return std::nullopt;
  Surroundings place;
  place.scheduler = "Open MPI";
  place.nodes = static_cast<int>(*size);
  place.node_rank = static_cast<int>(*rank);
  place.nodes_from = "OMPI_COMM_WORLD_SIZE";
  place.rank_from = "OMPI_COMM_WORLD_RANK";
  const std::string job = variable("PMIX_NAMESPACE").value_or("0");
  place.run_id = "mpirun-" + job;
  place.main_port = port_of(std::hash<std::string>()(job));
  if (number(variable("OMPI_COMM_WORLD_LOCAL_SIZE")) == size) {
    place.main_address = "127.0.0.1";
    place.address_from = "OMPI_COMM_WORLD_LOCAL_SIZE";
  } else if (const auto uri = variable("OMPI_MCA_orte_hnp_uri")) {
    place.main_address = address_in_uri(*uri);
    place.address_from = "OMPI_MCA_orte_hnp_uri";
  }
  return place;
}

std::optional<Surroundings> kubernetes(const Lookup& variable, const std::string& full_name) {
  const auto index = number(variable("JOB_COMPLETION_INDEX"));
  if (!index || !variable("KUBERNETES_SERVICE_HOST")) return std::nullopt;
  Surroundings place;
  place.scheduler = "Kubernetes";
  place.node_rank = static_cast<int>(*index);
  place.rank_from = "JOB_COMPLETION_INDEX";
  place.nodes = 0;  // which its variables do not say
  // A pod of an indexed job is called JOB-INDEX, in the domain of its headless service.
  const std::string name = full_name.substr(0, full_name.find('.')), end = "-" + std::to_string(*index);
  if (name.size() > end.size() && name.ends_with(end)) {
    const std::string job = name.substr(0, name.size() - end.size());
    place.run_id = job;
    place.main_address = job + "-0" + full_name.substr(name.size());
    place.address_from = "the pod's name, " + full_name;
  }
  return place;
}

}  // namespace

std::optional<std::string> first_host(std::string_view list) {
  const auto end = list.find_first_of(",[");
  std::string host(list.substr(0, end));
  if (end == list.npos || list[end] == ',') return host.empty() ? std::nullopt : std::optional(host);
  std::string digits;
  for (const char c : list.substr(end + 1)) {
    if (!std::isdigit(static_cast<unsigned char>(c))) break;
    digits += c;
  }
  const auto close = list.find(']', end);
  if (digits.empty() || close == list.npos) return std::nullopt;
  // "rack[1-2]-n[1-4]": what follows may have numbers of its own.
  const std::string_view rest = list.substr(close + 1);
  if (rest.empty() || rest.front() == ',') return host + digits;
  const auto tail = first_host(rest);
  return tail ? std::optional(host + digits + *tail) : std::nullopt;
}

std::optional<Surroundings> surroundings(const Lookup& variable, const std::string& full_name) {
  // mpirun may run inside a Slurm job, and either inside a pod.
  if (auto place = open_mpi(variable)) return place;
  if (auto place = slurm(variable)) return place;
  return kubernetes(variable, full_name);
}

}  // namespace hookline
