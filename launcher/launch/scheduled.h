// A config completed by what the scheduler says.
#pragma once

#include "config/schema/run_config.h"

namespace hookline {

/// Sets what the config leaves open and the scheduler's variables tell: [launch] nnodes and node_rank, [rendezvous]
/// main_address, main_port and run_id. Says why, and returns false, if launchers can't run the way they were started.
bool complete_by_scheduler(RunConfig& config);

}  // namespace hookline
