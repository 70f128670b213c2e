// What a tracker's server shows of a run that has ended.
#pragma once

#include <filesystem>
#include <string>

#include "config/schema/run_config.h"
#include "launcher/process/signals.h"

namespace hookline {

/// How MLflow calls the end of a run with this exit code: "FINISHED", "FAILED" or "KILLED". `keeps_checkpoints`: 75 means that
/// the state is saved for another launch.
std::string mlflow_status(int exit_code, bool keeps_checkpoints);

/// Sees to it that MLflow shows how the run ended, if rank 0 has made a run there; costs nothing if it has not. Takes ten
/// seconds at most, and ends at once by SIGINT or SIGQUIT. Logs what goes wrong, and throws nothing.
void end_tracked_run(const RunConfig& config, const std::filesystem::path& run_folder, int exit_code,
                     Signals& signals);

}  // namespace hookline
