// Requests to an MLflow server.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tracking/http_client.h"

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

/// A server's REST API, version 2.0. Not thread-safe.
class MlflowServer {
 public:
  explicit MlflowServer(const MlflowOptions& options);

  /// The answer to `request`, posted to "runs/update". Throws TryAgain if the server may have another one later, else Error.
  nlohmann::json post(const std::string& what, const nlohmann::json& request);
  /// The same of "runs/get?run_id=…".
  nlohmann::json get(const std::string& what);
  /// The id of the experiment, which is made if there is none. Throws as post() does.
  std::string experiment_id(const std::string& name);

 private:
  std::string api_;
  HttpClient client_;
};

/// An address without the user and the password that it may have.
std::string without_secrets(const std::string& uri);

/// As MLflow counts time.
std::int64_t mlflow_time(std::chrono::system_clock::time_point time);

}  // namespace hookline
