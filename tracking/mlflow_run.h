// A run on an MLflow server.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tracking/http_client.h"
#include "tracking/tracker.h"

namespace hookline {

struct MlflowOptions {
  std::string tracking_uri;  // http:// or https://
  std::string experiment;    // made, if there is none
  HttpOptions http;
};

/// What a config says, and for what it leaves out MLflow's own variables: MLFLOW_TRACKING_URI, _EXPERIMENT_NAME,
/// _TRACKING_USERNAME, _TRACKING_PASSWORD, _TRACKING_TOKEN, _TRACKING_INSECURE_TLS, _TRACKING_SERVER_CERT_PATH. Throws Error
/// if the address is no server's.
MlflowOptions mlflow_options(const std::string& tracking_uri, const std::string& experiment);

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
  /// The server's answer. Throws TryAgain if it may have another one later, else Error.
  nlohmann::json call(const std::string& what, const nlohmann::json& request);
  std::string experiment_id();
  void make_run(const TrackedRun& run);
  void send_parameters();
  bool go_on_with(const std::filesystem::path& file);

  MlflowOptions options_;
  std::optional<HttpClient> client_;  // made by the tracker's thread
  std::string run_id_;
  std::vector<std::pair<std::string, std::string>> parameters_;  // that are still to be sent
};

}  // namespace hookline
