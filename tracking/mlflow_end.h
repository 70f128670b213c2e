// Ends a run on an MLflow server in place of a rank 0 that could not.
#pragma once

#include <filesystem>
#include <string>

namespace hookline {

/// Sets the run that the note in `run_folder` names, if there is one, to `status` ("FINISHED", "FAILED" or "KILLED"). Leaves it
/// as it is if the server says how it ended and had that from somebody else than rank 0. The server's address and secrets
/// come from MLflow's variables, as far as they are about the noted server. Takes 8 seconds at most. What went wrong, and how the
/// run can be ended by hand, in words; empty if nothing did.
std::string end_mlflow_run(const std::filesystem::path& run_folder, const std::string& status);

}  // namespace hookline
