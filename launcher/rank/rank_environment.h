// The environment that a rank gets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/schema/run_config.h"

namespace hookline {

/// The variable that may hold the token of a run of several nodes (rendezvous/run_secret.h). Ranks don't get
/// it.
inline constexpr const char* kTokenVariable = "HOOKLINE_TOKEN";

/// Where this node's ranks stand among those of all nodes.
struct NodePlace {
  int node = 0, nodes = 1;
  int first_rank = 0;
  int world_size = 0;                      // 0: the ranks of this node, which is the only one
  std::string main_address = "127.0.0.1";  // of rank 0's host, as this node reaches it
  std::string run_id;                      // empty: the run folder's name
  std::string launch_id;                   // of all nodes and attempts of one launch; empty in a dry run
  std::string store_name = {};   // of the Unix socket at which ranks reach the store; empty: rank 0 has it
  bool has_agent_store = false;  // MASTER_PORT leads to the launchers' store, too
  std::string interface = {};    // that leads to the other nodes, or to this host itself; empty: not known
};

/// What all ranks of an attempt share.
struct RunPlace {
  int ranks = 1;  // on this node
  NodePlace node;
  int store_port = 0;
  int store_descriptor = -1;   // in rank 0
  int status_descriptor = -1;  // in all ranks
  std::string run_folder;      // absolute
  std::string log_folder;      // of this attempt; has a folder for each rank
  std::int64_t restarts = 0;   // before this attempt
  std::int64_t max_restarts = 0;
  std::string omp_num_threads;
  bool is_on_cpu = false;  // the config says so; if false, ranks use a GPU if there is one
};

using Variables = std::vector<std::pair<std::string, std::string>>;

/// The variables of torchrun and of hookline for `rank`, counted on this node, given a launcher whose own
/// environment is `base`.
Variables rank_variables(const std::vector<std::string>& base, const RunPlace& place, int rank);

/// `base` (the launcher's own "NAME=value" list) with the variables of torchrun and of hookline set for
/// `rank`.
std::vector<std::string> rank_environment(const std::vector<std::string>& base, const RunPlace& place,
                                          int rank);

/// OMP_NUM_THREADS of each rank. `variable` is the user's own OMP_NUM_THREADS, which yields only to a value
/// from the command line or from HOOKLINE_LAUNCH__OMP_NUM_THREADS.
std::string omp_num_threads(const RunConfig& config, const std::optional<std::string>& variable, int cores,
                            int ranks);

}  // namespace hookline
