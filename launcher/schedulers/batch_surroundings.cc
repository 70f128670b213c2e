// What batch systems (Slurm, PBS, LSF, Grid Engine) tell the processes of a job.
#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

#include "base/lines.h"
#include "base/text/count_text.h"
#include "config/schema/node_count.h"
#include "launcher/schedulers/surroundings_parts.h"

namespace hookline {
namespace {

void add_once(const std::string& name, std::vector<std::string>& names) {
  if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

/// The first word of each line. PBS and LSF write nothing else there; Grid Engine writes the slots after it.
std::vector<std::string> first_words(const std::string& text) {
  std::vector<std::string> names;
  for (const std::string_view line : lines_of(text)) {
    std::istringstream words{std::string(line)};
    std::string name;
    words >> name;
    add_once(name, names);
  }
  return names;
}

/// Every `step`th word of "h1 8 h2 8" or "h1 h1 h2".
std::vector<std::string> words_of(const std::string& text, std::size_t step) {
  std::vector<std::string> names;
  std::istringstream words(text);
  std::size_t i = 0;
  for (std::string word; words >> word; ++i)
    if (i % step == 0) add_once(word, names);
  return names;
}

JobHosts lsf_hosts(const HostFacts& here) {
  auto hosts = hosts_in_file(here, "LSB_DJOB_HOSTFILE");
  if (hosts && !hosts->names.empty()) return *hosts;
  for (const auto& [variable, step] : {std::pair("LSB_HOSTS", 1), std::pair("LSB_MCPU_HOSTS", 2)})
    if (const auto list = here.variable(variable))
      return {words_of(*list, static_cast<std::size_t>(step)), variable, hosts ? hosts->unusable : ""};
  return hosts.value_or(JobHosts());
}

std::string short_name(const std::string& name) { return name.substr(0, name.find('.')); }

/// The index of this host among the hosts.
std::optional<int> place_among(const std::vector<std::string>& names, const std::string& own) {
  const auto same = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return short_name(name) == short_name(own);
  });
  return same == names.end() ? std::nullopt : std::optional(static_cast<int>(same - names.begin()));
}

/// Surroundings in a job with one launcher on each host, which finds its place by the host's name.
std::optional<Surroundings> place_by_name(const HostFacts& here, const std::string& scheduler,
                                          const std::string& job, const JobHosts& hosts) {
  Surroundings place;
  place.scheduler = scheduler;
  if (hosts.names.empty()) {
    if (hosts.unusable.empty()) return std::nullopt;  // a job without a list, for example on a single host
    place.nodes = 0;
    place.unsaid = hosts.unusable;
    return place;
  }
  if (!hosts.unusable.empty()) place.notes.push_back(hosts.unusable + "; " + hosts.from + " is used instead");
  if (hosts.names.size() < 2 && place.notes.empty()) return std::nullopt;
  if (hosts.names.size() > NodeCount::kMost) {
    place.problem = hosts.from + " names " + std::to_string(hosts.names.size()) +
                    " hosts, and a run has at most " + std::to_string(NodeCount::kMost) +
                    " nodes: set [launch] nnodes to use fewer";
    return place;
  }
  place.nodes = static_cast<int>(hosts.names.size());
  place.nodes_from = hosts.from;
  if (place.nodes == 1) return place;
  place.run_id = job;
  place.main_port = port_of_job(job);
  place.main_address = hosts.names.front();
  place.address_from = hosts.from;
  if (const auto rank = place_among(hosts.names, here.full_name)) {
    place.node_rank = *rank;
    place.rank_from = hosts.from;
  } else {
    place.unsaid = "the hosts of " + scheduler + "'s job, in " + hosts.from + ", do not include this one, " +
                   here.full_name;
  }
  return place;
}

}  // namespace

std::optional<JobHosts> hosts_in_file(const HostFacts& here, const char* variable) {
  const auto file = here.variable(variable);
  if (!file) return std::nullopt;
  JobHosts hosts;
  hosts.from = variable;
  const NamedText content = here.read(*file);
  hosts.names = first_words(content.text);
  if (!content.why_not.empty())
    hosts.unusable = variable + ("=" + *file) + " can't be read: " + content.why_not;
  else if (hosts.names.empty())
    hosts.unusable = variable + ("=" + *file) + " names no hosts";
  return hosts;
}

std::string name_of_job(const Lookup& variable) {
  const auto array = [&](const char* index) {
    const auto number = number_in(variable(index));
    return number && *number > 0 ? "-" + std::to_string(*number) : std::string();
  };
  if (const auto job = variable("SLURM_JOB_ID")) return "slurm-" + *job;
  if (const auto job = variable("PBS_JOBID")) return "pbs-" + *job;
  if (const auto job = variable("LSB_JOBID")) return "lsf-" + *job + array("LSB_JOBINDEX");
  if (const auto job = variable("JOB_ID"); job && variable("PE_HOSTFILE"))
    return "sge-" + *job + array("SGE_TASK_ID");
  return "";
}

JobHosts hosts_of_job(const HostFacts& here) {
  for (const char* list : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    // A step of one node may be one that an MPI launcher made for itself: then the job's list counts.
    if (list == std::string("SLURM_STEP_NODELIST") && here.variable("SLURM_STEP_NUM_NODES") == "1" &&
        here.variable("SLURM_JOB_NODELIST"))
      continue;
    if (const auto names = here.variable(list))
      if (const auto first = first_host(*names)) return {{*first}, list, ""};
  }
  if (here.variable("PBS_JOBID"))
    if (auto hosts = hosts_in_file(here, "PBS_NODEFILE")) return *hosts;
  if (here.variable("LSB_JOBID")) return lsf_hosts(here);
  if (here.variable("JOB_ID"))
    if (auto hosts = hosts_in_file(here, "PE_HOSTFILE")) return *hosts;
  return {};
}

std::optional<Surroundings> slurm_surroundings(const HostFacts& here) {
  const Lookup& variable = here.variable;
  const auto job_text = variable("SLURM_JOB_ID"), step_text = variable("SLURM_STEP_ID");
  if (!job_text) return std::nullopt;
  Surroundings place;
  place.scheduler = kSlurm;
  place.nodes = 0;
  const auto job = number_in(job_text), step = number_in(step_text);
  if (!job || (step_text && !step)) {
    place.unsaid = (job ? "SLURM_STEP_ID=" + *step_text : "SLURM_JOB_ID=" + *job_text) + " is not a number";
    return place;
  }
  place.run_id = "slurm-" + std::to_string(*job);
  place.main_port = port_of_job(std::to_string(*job));
  if (!step) {
    // The batch script itself, or salloc's shell, which runs on the first node only.
    const auto nodes = node_count_of(here, "SLURM_JOB_NUM_NODES", place);
    if (!place.unsaid.empty() || !place.problem.empty()) return place;
    if (!nodes || *nodes < 2) return std::nullopt;
    place.nodes_from = "SLURM_JOB_NUM_NODES";
    place.problem =
        "this job has " + std::to_string(*nodes) +
        " nodes, and the launcher was started on one of them only: start it on each, with 'srun "
        "--ntasks-per-node=1 hookline launch …', or set [launch] nnodes = 1 to use this one alone";
    return place;
  }
  place.run_id += "-" + std::to_string(*step);
  const char* const nodes_from = variable("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
  if (const auto nodes = node_count_of(here, nodes_from, place)) {
    place.nodes = *nodes;
    place.nodes_from = nodes_from;
  } else if (!variable(nodes_from)) {
    leave_unsaid(place, "Slurm's variables do not say how many nodes there are");
  }
  if (const auto rank = node_rank_of(here, "SLURM_NODEID", place)) {
    place.node_rank = *rank;
    place.rank_from = "SLURM_NODEID";
  } else if (!variable("SLURM_NODEID") && place.nodes > 1) {
    leave_unsaid(place, "Slurm's variables do not say which node this is");
  }
  const char* const list_name =
      variable("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  if (const auto list = variable(list_name)) {
    place.main_address = first_host(*list).value_or("");
    if (!place.main_address.empty())
      place.address_from = list_name;
    else
      leave_unsaid(place, list_name + ("=" + *list) + " is not a list of hosts");
  } else if (place.nodes > 1) {
    leave_unsaid(place, "Slurm's variables do not say where the nodes meet");
  }
  if (number_in(variable("SLURM_LOCALID")).value_or(0) > 0)
    place.problem =
        "Slurm has started several launchers on this node (SLURM_LOCALID is above 0), and each starts ranks "
        "of its own: srun needs --ntasks-per-node=1";
  return place;
}

std::optional<Surroundings> pbs_surroundings(const HostFacts& here) {
  const auto job = here.variable("PBS_JOBID");
  const auto hosts = hosts_in_file(here, "PBS_NODEFILE");
  if (!job || !hosts) return std::nullopt;
  Surroundings by_number;
  by_number.scheduler = "PBS";
  by_number.nodes = 0;
  const auto number = node_rank_of(here, "PBS_NODENUM", by_number);
  if (!by_number.problem.empty()) return by_number;
  if (!hosts->unusable.empty()) {
    // The file exists only on the job's first node: elsewhere only this node's number is known.
    leave_unsaid(by_number, hosts->unusable);
    if (!number) return by_number;
    by_number.node_rank = *number;
    by_number.rank_from = "PBS_NODENUM";
    by_number.run_id = name_of_job(here.variable);
    by_number.main_port = port_of_job(by_number.run_id);
    return by_number;
  }
  const int count = static_cast<int>(hosts->names.size());
  if (number && *number >= count) {
    by_number.problem = "PBS_NODENUM=" + std::to_string(*number) + " is too large for the " +
                        count_text(count, "host") +
                        " that PBS_NODEFILE names, counted from 0: set [launch] nnodes = 1 to use "
                        "this node alone, or correct the variables";
    return by_number;
  }
  auto place = place_by_name(here, "PBS", name_of_job(here.variable), *hosts);
  if (!place) return std::nullopt;
  if (number) {
    place->node_rank = *number;
    place->rank_from = "PBS_NODENUM";
    place->unsaid.clear();
  } else if (!by_number.unsaid.empty()) {
    place->notes.push_back(by_number.unsaid + "; the name of this host, " + here.full_name +
                           ", tells which node it is");
  }
  if (number == 0 && here.variable("PBS_TASKNUM") == "1") {  // the job's script itself
    place->problem =
        "this job has " + std::to_string(place->nodes) +
        " nodes, and the launcher was started on the first of them only: start it on each, with "
        "'mpiexec' or 'pbsdsh' (if by other means, add --set launch.node_rank=N), or set [launch] "
        "nnodes = 1 to use this one alone";
    place->is_problem_unless_ranked = true;
  }
  return place;
}

std::optional<Surroundings> lsf_surroundings(const HostFacts& here) {
  if (!here.variable("LSB_JOBID")) return std::nullopt;
  return place_by_name(here, "LSF", name_of_job(here.variable), lsf_hosts(here));
}

std::optional<Surroundings> grid_engine_surroundings(const HostFacts& here) {
  const auto hosts = hosts_in_file(here, "PE_HOSTFILE");
  if (!here.variable("JOB_ID") || !hosts) return std::nullopt;
  if (hosts->unusable.empty()) return place_by_name(here, "Grid Engine", name_of_job(here.variable), *hosts);
  Surroundings place;
  place.scheduler = "Grid Engine";
  place.run_id = name_of_job(here.variable);
  place.main_port = port_of_job(place.run_id);
  place.unsaid = hosts->unusable;
  place.nodes = node_count_of(here, "NHOSTS", place).value_or(0);
  if (place.nodes > 0) place.nodes_from = "NHOSTS";
  if (place.nodes > 1) leave_unsaid(place, "nothing else says which node this is or where the nodes meet");
  return place;
}

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
  // "rack[1-2]-n[1-4]": there may be more brackets after this one.
  const std::string_view rest = list.substr(close + 1);
  if (rest.empty() || rest.front() == ',') return host + digits;
  const auto tail = first_host(rest);
  return tail ? std::optional(host + digits + *tail) : std::nullopt;
}

}  // namespace hookline
