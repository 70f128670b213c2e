// Completes a config with what the scheduler says.
#pragma once

#include "config/schema/run_config.h"

namespace hookline {

/// Sets, by the scheduler's variables, what the config leaves open of [launch] nnodes and node_rank, and of
/// [rendezvous] main_address, main_port and run_id. Overrides a node_rank or main_address from a file. Logs
/// an error and returns false if launchers can't run as they were started.
bool complete_by_scheduler(RunConfig& config);

}  // namespace hookline
