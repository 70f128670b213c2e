#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/facts/facts.h"
#include "launcher/process/machine.h"
#include "launcher/schedulers/surroundings.h"

extern char** environ;

namespace hookline {
namespace {

/// The value in the first line that begins with `name`, such as "model name : AMD EPYC" or "NAME=value";
/// empty if there is none.
std::string field_of(const std::string& file, const std::string& name, char sign) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t at = line.find(sign);
    if (at == line.npos || line.find_first_not_of(" \t", name.size()) != at) continue;
    std::string value = line.substr(at + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '"')) value.erase(0, 1);
    while (!value.empty() && (value.back() == ' ' || value.back() == '"')) value.pop_back();
    return value;
  }
  return "";
}

/// Bytes of a row of /proc/meminfo, which counts in KiB.
std::int64_t memory_row(const std::string& name) {
  const std::string row = field_of("/proc/meminfo", name, ':');
  return row.empty() ? 0 : std::stoll(row) * 1024;
}

std::string container() {
  std::error_code none;
  if (environment_variable("KUBERNETES_SERVICE_HOST")) return "Kubernetes";
  if (std::filesystem::exists("/.dockerenv", none)) return "Docker";
  if (std::filesystem::exists("/run/.containerenv", none)) return "Podman";
  if (const auto name = environment_variable("APPTAINER_NAME")) return "Apptainer " + *name;
  return "none seen";
}

/// Counts processors that differ in these files of their topology, and so are on different cores or sockets.
std::size_t count_in_topology(const std::vector<std::string>& files) {
  std::set<std::string> different;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/cpu", none)) {
    std::string key;
    for (const std::string& file : files) key += line_of(entry.path() / "topology" / file) + "/";
    if (key.size() > files.size()) different.insert(key);
  }
  return different.size();
}

std::size_t numa_nodes() {
  std::size_t count = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/node", none)) {
    const std::string name = entry.path().filename();
    count += name.starts_with("node") && name.size() > 4 && std::isdigit(static_cast<unsigned char>(name[4]));
  }
  return count;
}

Facts limit_fact(rlim_t limit) { return limit == RLIM_INFINITY ? Facts("unlimited") : Facts(limit); }

/// The limit in force, and what a process may raise it to.
void add_limit(Facts& facts, const std::string& name, __rlimit_resource resource) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  facts[name] = limit_fact(limit.rlim_cur);
  facts["most_" + name] = limit_fact(limit.rlim_max);
}

}  // namespace

Facts system_facts() {
  utsname names{};
  ::uname(&names);
  Facts facts;
  facts["host"] = host_name();
  facts["distribution"] = field_of("/etc/os-release", "PRETTY_NAME", '=');
  facts["kernel"] = std::string(names.sysname) + " " + names.release + " " + names.machine;
  facts["c_library"] = std::string("glibc ") + gnu_get_libc_version();
  facts["container"] = container();
  const auto scheduler = surroundings(facts_here(host_name()));
  facts["scheduler"] = scheduler ? scheduler->scheduler : "none";
  return facts;
}

Facts machine_facts() {
  Facts facts;
  facts["processor"] = field_of("/proc/cpuinfo", "model name", ':');
  facts["usable_processors"] = usable_cores();
  facts["cores"] = count_in_topology({"physical_package_id", "core_id"});
  facts["sockets"] = count_in_topology({"physical_package_id"});
  facts["numa_nodes"] = numa_nodes();
  facts["memory_bytes"] = memory_row("MemTotal");
  facts["available_memory_bytes"] = memory_row("MemAvailable");
  facts["swap_bytes"] = memory_row("SwapTotal");
  // Control groups of version 2; "max" means no limit.
  for (const auto& [name, file] : {std::pair("cgroup_cpu_max", "/sys/fs/cgroup/cpu.max"),
                                   std::pair("cgroup_memory_max", "/sys/fs/cgroup/memory.max")}) {
    if (const std::string value = line_of(file); !value.empty()) facts[name] = value;
  }
  return facts;
}

Facts limit_facts() {
  Facts facts;
  add_limit(facts, "open_files", RLIMIT_NOFILE);
  add_limit(facts, "processes", RLIMIT_NPROC);
  add_limit(facts, "locked_memory_bytes", RLIMIT_MEMLOCK);
  add_limit(facts, "stack_bytes", RLIMIT_STACK);
  add_limit(facts, "core_dump_bytes", RLIMIT_CORE);
  struct statvfs memory {};
  if (::statvfs("/dev/shm", &memory) == 0)
    facts["free_shared_memory_bytes"] = memory.f_bavail * memory.f_frsize;
  else
    facts["free_shared_memory_bytes"] = "there is no /dev/shm";
  std::string ports = line_of("/proc/sys/net/ipv4/ip_local_port_range");
  std::replace(ports.begin(), ports.end(), '\t', '-');
  facts["ports_for_connections"] = ports;
  return facts;
}

Facts variable_facts() {
  static constexpr std::array kPrefixes = {"HOOKLINE_", "TORCH", "PYTORCH_",  "NCCL_",  "GLOO_",
                                           "CUDA_",     "OMP_",  "MKL_",      "SLURM_", "OMPI_",
                                           "MASTER_",   "LD_",   "LOCAL_RANK"};
  // Anyone who has one of these acts as the user: Slurm's SLURM_JWT, and variables with similar endings.
  static constexpr std::array kSecretEnds = {"_JWT", "_TOKEN", "_PASSWORD", "_SECRET", "_KEY"};
  static constexpr std::array kNames = {"RANK", "WORLD_SIZE", "PATH", "TMPDIR", "JOB_COMPLETION_INDEX"};
  std::map<std::string, std::string> found;
  for (char** each = environ; *each; ++each) {
    const std::string_view line = *each;
    const std::size_t equals = line.find('=');
    if (equals == line.npos) continue;
    const std::string name(line.substr(0, equals));
    const auto is_named = [&](const char* known) { return name == known; };
    const auto has_prefix = [&](const char* prefix) { return name.starts_with(prefix); };
    if (std::any_of(kNames.begin(), kNames.end(), is_named) ||
        std::any_of(kPrefixes.begin(), kPrefixes.end(), has_prefix))
      found[name] = std::any_of(kSecretEnds.begin(), kSecretEnds.end(),
                                [&](const char* end) { return name.ends_with(end); })
                        ? "(not shown)"
                        : line.substr(equals + 1);
  }
  Facts facts = Facts::object();
  for (const auto& [name, value] : found) facts[name] = value;
  return facts;
}

}  // namespace hookline
