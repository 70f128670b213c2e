// A run on an MLflow server.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tracking/mlflow_note.h"
#include "tracking/mlflow_server.h"
#include "tracking/tracker.h"

namespace hookline {

/// Metrics and the config, as parameters, of a run that is made on the server (its REST API, version 2.0). A run that is
/// restarted goes on with the one it has, whose id lies in mlflow.json in its folder. A server that can't be reached is tried
/// again.
class MlflowRun : public Tracker {
 public:
  explicit MlflowRun(MlflowOptions options);

  std::string place() const override;
  void begin(const TrackedRun& run) override;
  void write(std::span<const LoggedMetrics> lines) override;
  void end(RunEnd how) override;

 private:
  /// False if the server has no such run any more.
  bool go_on_with(const MlflowNote& note);
  void make_run(const TrackedRun& run);
  void keep_note(const std::string& told_status) const;
  void send_parameters();

  MlflowOptions options_;
  std::optional<MlflowServer> server_;  // made by the tracker's thread
  std::string run_id_;
  std::filesystem::path folder_;                                 // of the run
  std::vector<std::pair<std::string, std::string>> parameters_;  // that are still to be sent
};

}  // namespace hookline
