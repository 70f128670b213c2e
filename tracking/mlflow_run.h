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

/// Sends metrics, and the config as parameters, to a run that it creates on the server (REST API, version
/// 2.0). A restarted run continues the one whose id is in mlflow.json in its folder. If the server can't be
/// reached, it tries again later.
class MlflowRun : public Tracker {
 public:
  explicit MlflowRun(MlflowOptions options);

  std::string place() const override;
  void begin(const TrackedRun& run) override;
  void write(std::span<const LoggedMetrics> lines) override;
  void end(RunEnd how) override;

 private:
  /// Continues the noted run. False if the server does not have it any more.
  bool continue_run(const MlflowNote& note);
  void make_run(const TrackedRun& run);
  void keep_note(const std::string& told_status) const;
  void send_parameters();

  MlflowOptions options_;
  std::optional<MlflowServer> server_;  // made by the tracker's thread
  std::string run_id_;
  std::filesystem::path folder_;                                 // of the run
  std::vector<std::pair<std::string, std::string>> parameters_;  // still to be sent
};

}  // namespace hookline
