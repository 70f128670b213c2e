// Completes a config with what the scheduler says.
#pragma once

#include "config/schema/run_config.h"

namespace hookline {

/// Sets what the config leaves open and the scheduler's variables say: [launch] nnodes and node_rank,
/// [rendezvous] main_address, main_port and run_id. Logs an error and returns false if launchers can't run as
/// they were started.
bool complete_by_scheduler(RunConfig& config);

}  // namespace hookline
