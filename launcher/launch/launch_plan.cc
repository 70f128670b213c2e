#include "launcher/launch/launch_plan.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "base/text/count_text.h"
#include "base/text/printable.h"
#include "config/schema/node_count.h"
#include "config/visible_gpus.h"
#include "launcher/launch/node_setup.h"
#include "launcher/process/machine.h"
#include "launcher/process/own_address.h"
#include "launcher/process/own_environment.h"
#include "launcher/process/shell.h"
#include "launcher/rank/run_folder.h"

namespace hookline {

int ranks_of(const LaunchConfig& config) {
  if (config.processes_per_node) return static_cast<int>(*config.processes_per_node);
  return config.device == "cpu" ? 1 : std::max(1, visible_gpus());
}

NodeResources resources_of(const RunConfig& config, const std::optional<std::string>& threads_variable) {
  const LaunchConfig& launch = config.launch;
  const bool uses_gpus =
      launch.device == "cuda" || launch.backend == "nccl" || (launch.device == "auto" && visible_gpus() > 0);
  const int ranks = ranks_of(launch);
  // "4,2" means teams of 4 threads. Each OpenMP library has its own way of reading what is not a number.
  const std::string text = omp_num_threads(config, threads_variable, 1, 1);
  constexpr std::int64_t kMostThreads = 1 << 16;
  std::int64_t threads = 1;
  std::from_chars(text.data(), text.data() + text.size(), threads);
  return {ranks * std::clamp<std::int64_t>(threads, 1, kMostThreads), uses_gpus ? ranks : 0};
}

RunPlace place_of(const RunConfig& config, const std::filesystem::path& run_folder, std::int64_t attempt) {
  RunPlace place;
  place.ranks = ranks_of(config.launch);
  place.run_folder = run_folder;
  place.log_folder = run_folder / attempt_name(attempt);
  place.restarts = attempt;
  place.max_restarts = config.launch.max_restarts;
  place.is_on_cpu = config.launch.device == "cpu";
  const char* threads = std::getenv("OMP_NUM_THREADS");
  place.omp_num_threads = omp_num_threads(
      config, threads ? std::optional<std::string>(threads) : std::nullopt, usable_cores(), place.ranks);
  return place;
}

std::vector<Cores> binding_of(const LaunchConfig& config, int ranks) {
  if (config.binding == "none") return std::vector<Cores>(static_cast<std::size_t>(ranks));
  return cores_of_ranks(config.binding, ranks);
}

std::string plan_text(const RunConfig& config, const Program& program) {
  const std::filesystem::path folder =
      std::filesystem::absolute(config.logging.dir).lexically_normal() / "DATE-TIME-PID";
  RunPlace place = place_of(config, folder, 0);
  std::string text =
      count_text(place.ranks, "rank") + " on " + printable(host_name()) + "; nothing is started\n";
  if (const int nodes = NodeCount::parse(config.launch.nnodes)->most; nodes > 1) {
    const int node = static_cast<int>(config.launch.node_rank.value_or(0));
    place.node = {node,
                  nodes,
                  node * place.ranks,
                  nodes * place.ranks,
                  config.rendezvous.main_address,
                  run_id_of(config, program, place.ranks),
                  /*launch_id=*/""};
    text += "as node " + std::to_string(node) + " of " + std::to_string(nodes) +
            ", if each has as many ranks as this one\n";
  }
  place.node.has_agent_store = has_agent_store(config, program);
  place.node.interface = interface_towards(place.node.main_address);
  text += "\ncommand\n ";
  text += " " + printable(shown_shell_line(program.argv()));
  text += "\nprogram\n  " + printable(program.executable.string()) + "\nlogs\n  " +
          printable(place.log_folder) + "/RANK/\n";
  if (config.launch.isolation == "pid") text += "\nisolation\n  ranks run in a PID namespace of their own\n";
  const auto base = own_environment();
  const std::vector<Cores> binding = binding_of(config.launch, place.ranks);
  for (int rank = 0; rank < place.ranks; ++rank) {
    const Cores& cores = binding[static_cast<std::size_t>(rank)];
    text += "\nrank " + std::to_string(place.node.first_rank + rank) +
            (cores.empty() ? "\n" : ", bound to cores " + cores_text(cores) + "\n");
    for (const auto& [name, value] : rank_variables(base, place, rank)) {
      const bool is_port = name == "MASTER_PORT";
      text += "  " + name + "=" +
              (is_port ? "a port that is free at the start" : printable(shown_shell_line({value}))) + "\n";
    }
  }
  return text;
}

}  // namespace hookline
