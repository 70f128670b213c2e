// mlflow.json in a run's folder: which run of which MLflow server it is there. Holds no secrets.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace hookline {

struct MlflowNote {
  std::string tracking_uri;  // without user and password
  std::string run_id;
  std::string told_status;  // how the run ended, as rank 0 told the server; empty: it has told nothing
};

/// Of the run whose folder it is; none if there is none that can be read.
std::optional<MlflowNote> read_mlflow_note(const std::filesystem::path& run_folder);

/// Logs a warning if it can't be written.
void write_mlflow_note(const std::filesystem::path& run_folder, const MlflowNote& note);

}  // namespace hookline
