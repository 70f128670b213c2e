// mlflow.json in a run's folder: the MLflow server and the id of the run there. Holds no secrets.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace hookline {

struct MlflowNote {
  std::string tracking_uri;  // without user and password
  std::string run_id;
  std::string told_status;  // the end that rank 0 reported to the server; empty: none
};

/// The note in a run's folder; nothing if there is none that can be read.
std::optional<MlflowNote> read_mlflow_note(const std::filesystem::path& run_folder);

/// Writes the note. Logs a warning if that fails.
void write_mlflow_note(const std::filesystem::path& run_folder, const MlflowNote& note);

}  // namespace hookline
