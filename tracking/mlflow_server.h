// Requests to an MLflow server.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tracking/http_client.h"

namespace hookline {

struct MlflowOptions {
  std::string tracking_uri;  // http:// or https://
  std::string experiment;    // created if it does not exist
  HttpOptions http;
};

/// The given settings; what they leave empty comes from MLflow's own variables: MLFLOW_TRACKING_URI,
/// _EXPERIMENT_NAME, _TRACKING_USERNAME, _TRACKING_PASSWORD, _TRACKING_TOKEN, _TRACKING_INSECURE_TLS,
/// _TRACKING_SERVER_CERT_PATH. Throws Error if the address is not a server's.
MlflowOptions mlflow_options(const std::string& tracking_uri, const std::string& experiment);

/// A server's REST API, version 2.0. Not thread-safe.
class MlflowServer {
 public:
  explicit MlflowServer(const MlflowOptions& options);

  /// Posts `request`, to "runs/update" for example, and returns the answer. Throws TryAgain if a later
  /// request may succeed, otherwise Error.
  nlohmann::json post(const std::string& what, const nlohmann::json& request);
  /// Gets "runs/get?run_id=…", for example. Throws like post().
  nlohmann::json get(const std::string& what);
  /// The id of the experiment, which is created if it does not exist. Throws like post().
  std::string experiment_id(const std::string& name);

 private:
  std::string api_;
  HttpClient client_;
};

/// The address without a user and a password.
std::string without_secrets(const std::string& uri);

/// A time as MLflow counts it: milliseconds since 1970.
std::int64_t mlflow_time(std::chrono::system_clock::time_point time);

}  // namespace hookline
