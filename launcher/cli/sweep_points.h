// From a sweep's grid points to configs, each checked as a launch would check it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "config/resolve.h"
#include "launcher/launch/catalog_of.h"
#include "launcher/schedulers/sbatch_lines.h"
#include "launcher/sweep/grid_points.h"

namespace hookline {

class SweepPoints {
 public:
  /// `hooks` must outlive it. Trials that do not `run_here` may use GPUs that are not here.
  /// `omp_num_threads`: that variable where they run.
  SweepPoints(const std::filesystem::path& file, const SweepFile& sweep, const CatalogOf& hooks,
              bool run_here, std::optional<std::string> omp_num_threads);

  /// What a grid point comes to, for plan_of.
  ResolvedPoint point(const Assignments& values);

  /// Over the grid points that can run: the largest number of ranks of one, and node resources that are
  /// enough for any of them.
  std::int64_t most_ranks() const { return most_ranks_; }
  const NodeResources& needed() const { return needed_; }
  /// Keys that they set, and that only hookline's library in a rank can act on.
  const std::set<std::string>& keys_of_ranks() const { return keys_of_ranks_; }

 private:
  Resolution resolve_cell(const Assignments& values) const;

  const CatalogOf& hooks_;
  const bool run_here_;
  const std::optional<std::string> omp_num_threads_;
  Sources base_;
  std::set<std::pair<std::string, std::string>> defaults_;
  std::int64_t most_ranks_ = 1;
  NodeResources needed_;
  std::set<std::string> keys_of_ranks_;
};

}  // namespace hookline
