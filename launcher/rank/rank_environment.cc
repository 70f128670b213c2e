#include "launcher/rank/rank_environment.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/regular_file.h"
#include "config/run_files.h"
#include "launcher/rank/error_file.h"

namespace hookline {
namespace {

constexpr const char* kStoreVariable = "HOOKLINE_STORE_FD";
constexpr const char* kStatusVariable = "HOOKLINE_STATUS_FD";
constexpr const char* kLauncherStoreVariable = "HOOKLINE_STORE";
constexpr const char* kAgentStoreVariable = "TORCHELASTIC_USE_AGENT_STORE";  // of torchrun
constexpr const char* kInterface = "HOOKLINE_INTERFACE";  // what hookline itself has set the next two to
constexpr const char* kGlooInterface = "GLOO_SOCKET_IFNAME";
constexpr const char* kNcclInterface = "NCCL_SOCKET_IFNAME";
constexpr const char* kAccelerateOnCpu = "ACCELERATE_USE_CPU";

// Each step frees and allocates the same large tensors as the one before. Without these thresholds glibc
// returns blocks above 32 MB to the system each time, and gets fresh, empty pages for them.
constexpr const char* kMallocVariables[] = {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"};
constexpr const char* kNoThreshold = "1000000000000";

bool is_variable(const std::string& entry, std::string_view name) {
  return entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name);
}

}  // namespace

/// Does one of NCCL's own files name an interface? The variable would win over them.
bool nccl_conf_names_interface(const std::vector<std::string>& base) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  std::vector<std::string> files = {"/etc/nccl.conf"};
  for (const std::string& entry : base) {
    if (is_variable(entry, "NCCL_CONF_FILE")) files.push_back(entry.substr(entry.find('=') + 1));
    if (is_variable(entry, "HOME")) files.push_back(entry.substr(entry.find('=') + 1) + "/.nccl.conf");
  }
  return std::any_of(files.begin(), files.end(), [](const std::string& name) {
    InputFile file(name, kMostBytes);
    return file.good() && file.read_all().find(kNcclInterface) != std::string::npos;
  });
}

/// The entries of `base` by which a launcher around this one has named an interface, for ranks of its own.
std::array<std::string, 3> of_outer_launcher(const std::vector<std::string>& base) {
  const auto outer = std::find_if(base.begin(), base.end(),
                                  [](const std::string& each) { return is_variable(each, kInterface); });
  if (outer == base.end()) return {};
  const std::string interface = outer->substr(outer->find('=') + 1);
  return {*outer, std::string(kGlooInterface) + "=" + interface,
          std::string(kNcclInterface) + "==" + interface};
}

bool holds(const std::array<std::string, 3>& entries, const std::string& entry) {
  return std::find(entries.begin(), entries.end(), entry) != entries.end();
}

Variables rank_variables(const std::vector<std::string>& base, const RunPlace& place, int rank) {
  const std::filesystem::path folder = place.run_folder;
  const NodePlace& node = place.node;
  const std::string index = std::to_string(node.first_rank + rank);
  const std::string count = std::to_string(node.world_size ? node.world_size : place.ranks);
  Variables ours = {
      {"RANK", index},
      {"LOCAL_RANK", std::to_string(rank)},
      {"WORLD_SIZE", count},
      {"LOCAL_WORLD_SIZE", std::to_string(place.ranks)},
      {"GROUP_RANK", std::to_string(node.node)},
      {"GROUP_WORLD_SIZE", std::to_string(node.nodes)},
      {"ROLE_RANK", index},
      {"ROLE_WORLD_SIZE", count},
      {"ROLE_NAME", "default"},
      {"MASTER_ADDR", node.main_address},
      {"MASTER_PORT", std::to_string(place.store_port)},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(place.restarts)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(place.max_restarts)},
      {"TORCHELASTIC_RUN_ID", node.run_id.empty() ? folder.filename().string() : node.run_id},
      {"TORCHELASTIC_ERROR_FILE", std::filesystem::path(place.log_folder) / index / kErrorFile},
      {"OMP_NUM_THREADS", place.omp_num_threads},
      {"HOOKLINE_CONFIG", folder / kResolvedForRanks},
      {"HOOKLINE_RUN_DIR", folder},
  };
  const auto is_set = [&base, outer = of_outer_launcher(base)](const char* name) {
    return std::any_of(base.begin(), base.end(), [&](const std::string& entry) {
      return is_variable(entry, name) && !holds(outer, entry);
    });
  };
  if (!is_set(kMallocVariables[0]) && !is_set(kMallocVariables[1]) && !is_set("GLIBC_TUNABLES")) {
    for (const char* name : kMallocVariables) ours.emplace_back(name, kNoThreshold);
  }
  // Without it, each process of Accelerate on the CPU trains by itself; `accelerate launch --cpu` sets it,
  // too.
  if (place.is_on_cpu && !is_set(kAccelerateOnCpu)) ours.emplace_back(kAccelerateOnCpu, "true");
  if (!node.launch_id.empty()) ours.emplace_back("HOOKLINE_LAUNCH_ID", node.launch_id);
  if (rank == 0 && place.store_descriptor >= 0)
    ours.emplace_back(kStoreVariable, std::to_string(place.store_descriptor));
  // With the port, by which ranks of a further run inside this one know that it is not theirs.
  if (!node.store_name.empty())
    ours.emplace_back(kLauncherStoreVariable, std::to_string(place.store_port) + ":" + node.store_name);
  if (node.has_agent_store) ours.emplace_back(kAgentStoreVariable, "True");
  // Without these variables, PyTorch's Gloo uses the interface of the address that the host's name resolves
  // to, and NCCL guesses.
  const bool names_gloo = node.has_agent_store && !is_set(kGlooInterface);
  const bool names_nccl = node.nodes > 1 && !is_set(kNcclInterface) && !nccl_conf_names_interface(base);
  if (!node.interface.empty() && (names_gloo || names_nccl)) {
    if (names_gloo) ours.emplace_back(kGlooInterface, node.interface);
    if (names_nccl) ours.emplace_back(kNcclInterface, "=" + node.interface);
    ours.emplace_back(kInterface, node.interface);
  }
  if (place.status_descriptor >= 0)
    ours.emplace_back(kStatusVariable, std::to_string(place.status_descriptor));

  return ours;
}

std::vector<std::string> rank_environment(const std::vector<std::string>& base, const RunPlace& place,
                                          int rank) {
  const Variables ours = rank_variables(base, place, rank);
  // These are left over from a launcher around this one: they lead to the store of another run, its
  // descriptors and its network interface. The token is for launchers only.
  const auto is_stale = [outer = of_outer_launcher(base)](const std::string& entry) {
    return holds(outer, entry) || is_variable(entry, kStoreVariable) || is_variable(entry, kStatusVariable) ||
           is_variable(entry, kLauncherStoreVariable) || is_variable(entry, kAgentStoreVariable) ||
           is_variable(entry, kTokenVariable);
  };
  std::vector<std::string> result;
  for (const std::string& entry : base)
    if (!is_stale(entry) && std::none_of(ours.begin(), ours.end(), [&entry](const auto& variable) {
          return is_variable(entry, variable.first);
        }))
      result.push_back(entry);
  for (const auto& [name, value] : ours) result.push_back(name + "=" + value);
  return result;
}

std::string omp_num_threads(const RunConfig& config, const std::optional<std::string>& variable, int cores,
                            int ranks) {
  const auto origin = config.origins.find("launch.omp_num_threads");
  const bool outranks = origin != config.origins.end() && origin->second.kind >= OriginKind::environment;
  if (variable && !variable->empty() && !outranks) return *variable;
  if (config.launch.omp_num_threads) return std::to_string(*config.launch.omp_num_threads);
  return std::to_string(std::max(1, cores / std::max(1, ranks)));
}

}  // namespace hookline
