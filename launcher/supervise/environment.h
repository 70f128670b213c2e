// The environment that a rank gets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/run_config.h"

namespace hookline {

/// What all ranks of an attempt share.
struct RunPlace {
  int ranks = 1;  // on this node, which is the only one
  int store_port = 0;
  int store_descriptor = -1;   // in rank 0
  int status_descriptor = -1;  // in all ranks
  std::string run_folder;      // absolute
  std::string log_folder;      // of this attempt; below it one a rank
  std::int64_t restarts = 0;   // before this attempt
  std::int64_t max_restarts = 0;
  std::string omp_num_threads;
};

using Variables = std::vector<std::pair<std::string, std::string>>;

/// The variables of torchrun and of hookline for `rank`, given a launcher whose own environment is `base`.
Variables rank_variables(const std::vector<std::string>& base, const RunPlace& place, int rank);

/// `base` (the launcher's own "NAME=value" list) with the variables of torchrun and of hookline set for
/// `rank`.
std::vector<std::string> rank_environment(const std::vector<std::string>& base, const RunPlace& place,
                                          int rank);

/// OMP_NUM_THREADS of each rank. `variable` is the user's own OMP_NUM_THREADS, which yields only to a value
/// from the command line or from HOOKLINE_LAUNCH__OMP_NUM_THREADS.
std::string omp_num_threads(const RunConfig& config, const std::optional<std::string>& variable, int cores,
                            int ranks);

/// The process's environment as a list.
std::vector<std::string> own_environment();

}  // namespace hookline
