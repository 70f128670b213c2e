// Records the end of a run on the tracker's server.
#pragma once

#include <filesystem>
#include <string>

#include "config/schema/run_config.h"
#include "launcher/process/signals.h"

namespace hookline {

/// MLflow's word for the end of a run with this exit code: "FINISHED", "FAILED" or "KILLED".
/// `keeps_checkpoints`: exit code 75 means that the state is saved for another launch.
std::string mlflow_status(int exit_code, bool keeps_checkpoints);

/// Makes sure that MLflow shows how the run ended, if rank 0 has created a run there; otherwise does nothing.
/// Takes ten seconds at most, and returns at once on SIGINT or SIGQUIT. Logs what goes wrong, and throws
/// nothing.
void end_tracked_run(const RunConfig& config, const std::filesystem::path& run_folder, int exit_code,
                     Signals& signals);

}  // namespace hookline
