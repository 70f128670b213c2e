#include "tracking/mlflow_server.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/error.h"
#include "tracking/tracker.h"

namespace hookline {
namespace {
using Json = nlohmann::json;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

/// The server's error message.
std::string message_of(const HttpAnswer& answer) {
  const Json json = json_or_discarded<Json>(answer.body);
  const std::string status = "HTTP " + std::to_string(answer.status);
  if (json.is_object() && json.contains("message") && json["message"].is_string())
    return status + ": " + json["message"].get<std::string>();
  return status;
}

constexpr long kNotFound = 404, kTooMany = 429, kServerErrors = 500;

/// The JSON in the answer. Throws TryAgain if a later request may succeed.
Json json_of(const HttpAnswer& answer) {
  if (answer.status == 0) throw TryAgain(answer.problem);
  if (answer.status == kTooMany || answer.status >= kServerErrors) throw TryAgain(message_of(answer));
  return json_or_discarded<Json>(answer.body);
}

/// The JSON object in the answer. Throws like MlflowServer::post.
Json object_of(const HttpAnswer& answer, const std::string& what) {
  const Json json = json_of(answer);
  if (answer.status != 200 || !json.is_object()) throw Error(message_of(answer) + " (" + what + ")");
  return json;
}

}  // namespace

MlflowOptions mlflow_options(const std::string& tracking_uri, const std::string& experiment) {
  MlflowOptions options;
  const std::string from_environment = variable("MLFLOW_TRACKING_URI");
  options.tracking_uri = !tracking_uri.empty()       ? tracking_uri
                         : !from_environment.empty() ? from_environment
                                                     : "http://127.0.0.1:5000";
  std::string& uri = options.tracking_uri;
  if (!uri.starts_with("http://") && !uri.starts_with("https://"))
    throw Error("MLFLOW_TRACKING_URI is '" + without_secrets(uri) +
                "', which is not a server's address: an address begins with http:// or https:// (`mlflow "
                "server` serves "
                "files and databases)");
  while (uri.ends_with('/')) uri.pop_back();
  const std::string named = variable("MLFLOW_EXPERIMENT_NAME");
  options.experiment = !experiment.empty() ? experiment : !named.empty() ? named : "Default";
  options.http.user = variable("MLFLOW_TRACKING_USERNAME");
  options.http.password = variable("MLFLOW_TRACKING_PASSWORD");
  options.http.token = variable("MLFLOW_TRACKING_TOKEN");
  options.http.certificates = variable("MLFLOW_TRACKING_SERVER_CERT_PATH");
  options.http.trusts_anyone = variable("MLFLOW_TRACKING_INSECURE_TLS") == "true";
  return options;
}

std::string without_secrets(const std::string& uri) {
  const std::size_t scheme = uri.find("://");
  const std::size_t host = scheme == uri.npos ? 0 : scheme + 3,
                    at = uri.rfind('@');  // a password may hold a '/'
  return at == uri.npos || at < host ? uri : uri.substr(0, host) + uri.substr(at + 1);
}

std::int64_t mlflow_time(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

MlflowServer::MlflowServer(const MlflowOptions& options)
    : api_(options.tracking_uri + "/api/2.0/mlflow/"), client_(options.http) {}

Json MlflowServer::post(const std::string& what, const Json& request) {
  return object_of(client_.post(api_ + what, request.dump(-1, ' ', false, Json::error_handler_t::replace)),
                   what);
}

Json MlflowServer::get(const std::string& what) {
  return object_of(client_.get(api_ + what), what.substr(0, what.find('?')));
}

std::string MlflowServer::experiment_id(const std::string& name) {
  const auto look = [&] {
    return client_.get(api_ + "experiments/get-by-name?experiment_name=" + HttpClient::escaped(name));
  };
  const auto id_in = [&](const HttpAnswer& answer) -> std::string {
    const Json json = json_of(answer);
    const Json::json_pointer id("/experiment/experiment_id");
    if (answer.status != 200 || !json.is_object() || !json.contains(id) || !json[id].is_string())
      throw Error(message_of(answer) + ", asked for experiment '" + name + "'");
    return json[id].get<std::string>();
  };
  const HttpAnswer found = look();
  if (found.status != kNotFound || found.body.find("RESOURCE_DOES_NOT_EXIST") == std::string::npos)
    return id_in(found);
  try {
    return post("experiments/create", {{"name", name}}).value("experiment_id", "");
  } catch (const TryAgain&) {
    throw;
  } catch (const Error&) {
    const HttpAnswer now = look();
    if (now.status == kNotFound) throw;
    return id_in(now);  // another run has made it meanwhile
  }
}

}  // namespace hookline
