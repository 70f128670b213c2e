// Ends a run on an MLflow server if rank 0 could not.
#pragma once

#include <filesystem>
#include <string>

namespace hookline {

/// Sets the run that the note in `run_folder` names to `status` ("FINISHED", "FAILED" or "KILLED"). Leaves it
/// as it is if something other than rank 0 has already reported its end. Takes user, password and token from
/// MLflow's variables, and the address as well if it is the noted server's; if not, the address in the note.
/// Takes at most 8 seconds. Returns what went wrong, such as a missing note, and how to set the status by
/// hand if the run is known; empty if nothing did.
std::string end_mlflow_run(const std::filesystem::path& run_folder, const std::string& status);

}  // namespace hookline
