// What a launch will do, before it starts anything.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/schema/run_config.h"
#include "launcher/rank/binding.h"
#include "launcher/rank/program.h"
#include "launcher/rank/rank_environment.h"
#include "launcher/schedulers/sbatch_lines.h"

namespace hookline {

/// How many ranks this host gets: [launch] processes_per_node, else its GPUs, else one.
int ranks_of(const LaunchConfig& config);

/// What those ranks need on this host, for a request to a scheduler. `omp_num_threads`: the value of that
/// variable in the job, which counts as it does for a launch. One thread a rank if nothing sets the number.
NodeResources resources_of(const RunConfig& config, const std::optional<std::string>& omp_num_threads);

/// What attempt number `attempt`, from 0, of a run in `run_folder` gives its ranks, except for the sockets,
/// which are made when it starts.
RunPlace place_of(const RunConfig& config, const std::filesystem::path& run_folder, std::int64_t attempt);

/// For each of `ranks`, the cores that [launch] binding gives it; empty if that is "none".
std::vector<Cores> binding_of(const LaunchConfig& config, int ranks);

/// For `launch --dry-run`: the command, where logs go, and the variables that each rank gets.
std::string plan_text(const RunConfig& config, const Program& program);

}  // namespace hookline
