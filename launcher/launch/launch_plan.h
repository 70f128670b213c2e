// What a launch is going to do, before anything is started.
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

/// What they need there, as a scheduler is asked for it; `omp_num_threads`: that variable in the job, which counts as for a
/// launch. One thread a rank if nothing says how many.
NodeResources resources_of(const RunConfig& config, const std::optional<std::string>& omp_num_threads);

/// What attempt `attempt`, from 0, of a run in `run_folder` hands its ranks; without the sockets, which are made at the
/// start.
RunPlace place_of(const RunConfig& config, const std::filesystem::path& run_folder, std::int64_t attempt);

/// For each of `ranks`, the cores that [launch] binding gives it; empty if that is "none".
std::vector<Cores> binding_of(const LaunchConfig& config, int ranks);

/// For `launch --dry-run`: the command, where logs go, and the variables that each rank gets.
std::string plan_text(const RunConfig& config, const Program& program);

}  // namespace hookline
