// Ends a run on an MLflow server if rank 0 could not.
#pragma once

#include <filesystem>
#include <string>

namespace hookline {

/// Sets the run that the note in `run_folder` names, if there is one, to `status` ("FINISHED", "FAILED" or
/// "KILLED"). Leaves it as it is if the server has its end from elsewhere than rank 0. Takes the server's
/// address and secrets from MLflow's variables, if they are about the noted server. Takes at most 8 seconds.
/// Returns what went wrong and how to set the status by hand; empty if nothing did.
std::string end_mlflow_run(const std::filesystem::path& run_folder, const std::string& status);

}  // namespace hookline
