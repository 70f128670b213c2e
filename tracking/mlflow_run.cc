#include "tracking/mlflow_run.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/run_files.h"
#include "hooks/log.h"
#include "hooks/regular_file.h"
#include "tracking/mlflow_name.h"

namespace hookline {
namespace {
using Json = nlohmann::json;

constexpr const char* kIdFile = "mlflow.json";
constexpr std::uint64_t kLargestKeptBytes = 1 << 20;
// What one request may have (mlflow/utils/validation.py).
constexpr std::size_t kMostMetrics = 1000, kMostParameters = 100, kLongestValue = 6000;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::int64_t milliseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

Json number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

/// Without the user and the password that it may have.
std::string without_secrets(const std::string& uri) {
  const std::size_t scheme = uri.find("://");
  const std::size_t host = scheme == uri.npos ? 0 : scheme + 3,
                    at = uri.rfind('@');  // a password may hold a '/'
  return at == uri.npos || at < host ? uri : uri.substr(0, host) + uri.substr(at + 1);
}

/// What the server says of an error, in words.
std::string message_of(const HttpAnswer& answer) {
  const Json json = Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  const std::string status = "HTTP " + std::to_string(answer.status);
  if (json.is_object() && json.contains("message") && json["message"].is_string())
    return status + ": " + json["message"].get<std::string>();
  return status;
}

constexpr long kNotFound = 404, kTooMany = 429, kServerErrors = 500;

/// The answer, as far as it is JSON. Throws TryAgain if the server may have another one later.
Json json_of(const HttpAnswer& answer) {
  if (answer.status == 0) throw TryAgain(answer.problem);
  if (answer.status == kTooMany || answer.status >= kServerErrors) throw TryAgain(message_of(answer));
  return Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
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
    throw Error(
        "MLFLOW_TRACKING_URI is '" + without_secrets(uri) +
        "', which is no server's address: http:// or https:// (`mlflow server` serves files and databases)");
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

MlflowRun::MlflowRun(MlflowOptions options) : options_(std::move(options)) {}

std::string MlflowRun::place() const { return "MLflow at " + without_secrets(options_.tracking_uri); }

Json MlflowRun::call(const std::string& what, const Json& request) {
  const HttpAnswer answer = client_->post(options_.tracking_uri + "/api/2.0/mlflow/" + what,
                                          request.dump(-1, ' ', false, Json::error_handler_t::replace));
  const Json json = json_of(answer);
  if (answer.status != 200 || !json.is_object()) throw Error(message_of(answer) + " (" + what + ")");
  return json;
}

std::string MlflowRun::experiment_id() {
  const auto look = [this] {
    return client_->get(options_.tracking_uri + "/api/2.0/mlflow/experiments/get-by-name?experiment_name=" +
                        HttpClient::escaped(options_.experiment));
  };
  const auto id_in = [&](const HttpAnswer& answer) -> std::string {
    const Json json = json_of(answer);
    const Json::json_pointer id("/experiment/experiment_id");
    if (answer.status != 200 || !json.is_object() || !json.contains(id) || !json[id].is_string())
      throw Error(message_of(answer) + ", asked for experiment '" + options_.experiment + "'");
    return json[id].get<std::string>();
  };
  const HttpAnswer found = look();
  if (found.status != kNotFound || found.body.find("RESOURCE_DOES_NOT_EXIST") == std::string::npos)
    return id_in(found);
  try {
    return call("experiments/create", {{"name", options_.experiment}}).value("experiment_id", "");
  } catch (const TryAgain&) {
    throw;
  } catch (const Error&) {
    const HttpAnswer now = look();
    if (now.status == kNotFound) throw;
    return id_in(now);  // another run has made it meanwhile
  }
}

bool MlflowRun::go_on_with(const std::filesystem::path& file) {
  InputFile in(file, kLargestKeptBytes);
  if (!in) return false;
  const Json kept = Json::parse(in.read_all(), nullptr, /*allow_exceptions=*/false);
  if (!kept.is_object() || kept.value("tracking_uri", "") != without_secrets(options_.tracking_uri))
    return false;
  const std::string id = kept.value("run_id", "");
  try {
    call("runs/update", {{"run_id", id}, {"status", "RUNNING"}});
  } catch (const TryAgain&) {
    throw;
  } catch (const Error&) {
    return false;  // somebody has removed it there
  }
  run_id_ = id;
  return true;
}

void MlflowRun::make_run(const TrackedRun& run) {
  const Json made =
      call("runs/create", {{"experiment_id", experiment_id()},
                           {"run_name", run.folder.filename().string()},
                           {"start_time", milliseconds(run.start)},
                           {"tags",
                            {{{"key", "mlflow.user"}, {"value", variable("USER")}},
                             {{"key", "mlflow.source.type"}, {"value", "LOCAL"}},
                             {{"key", "hookline.run_folder"}, {"value", run.folder.string()}}}}});
  const Json::json_pointer id("/run/info/run_id");
  if (!made.contains(id) || !made[id].is_string()) throw Error("runs/create answers without a run_id");
  run_id_ = made[id].get<std::string>();
  const std::filesystem::path file = run.folder / kIdFile;
  const Json kept = {{"tracking_uri", without_secrets(options_.tracking_uri)}, {"run_id", run_id_}};
  const std::string problem = write_regular_file(file, kept.dump(2) + "\n");
  if (!problem.empty())
    log::warning("'" + file.string() + "' can't be written (" + problem +
                 "): a restart will be another run of MLflow's");
}

void MlflowRun::begin(const TrackedRun& run) {
  if (!client_) client_.emplace(options_.http);
  if (run_id_.empty()) {
    if (!go_on_with(run.folder / kIdFile)) make_run(run);
    parameters_.assign(run.config.begin(), run.config.end());  // those that it has already are the same
  }
  send_parameters();
}

void MlflowRun::send_parameters() {
  while (!parameters_.empty()) {
    const std::size_t count = std::min(parameters_.size(), kMostParameters);
    Json some = Json::array();
    for (std::size_t i = 0; i < count; ++i)
      some.push_back({{"key", name_for_mlflow(parameters_[i].first)},
                      {"value", parameters_[i].second.substr(0, kLongestValue)}});
    try {
      call("runs/log-batch", {{"run_id", run_id_}, {"params", some}});
    } catch (const TryAgain&) {
      throw;
    } catch (const Error& error) {  // metrics may be welcome all the same
      log::warning("the config does not get to " + place() + ": " + error.what());
      parameters_.clear();
      return;
    }
    parameters_.erase(parameters_.begin(), parameters_.begin() + static_cast<std::ptrdiff_t>(count));
  }
}

void MlflowRun::write(std::span<const LoggedMetrics> lines) {
  Json metrics = Json::array();
  std::size_t sent = 0;  // lines
  const auto send = [&](std::size_t until) {
    try {
      if (!metrics.empty()) call("runs/log-batch", {{"run_id", run_id_}, {"metrics", metrics}});
    } catch (const TryAgain& problem) {
      throw TryAgain(problem.what(), sent);
    }
    metrics.clear();
    sent = until;
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const LoggedMetrics& line = lines[i];
    const auto add = [&](const std::string& name, double value) {
      metrics.push_back({{"key", name_for_mlflow(name)},
                         {"value", number(value)},
                         {"timestamp", milliseconds(line.time)},
                         {"step", line.step}});
      if (metrics.size() == kMostMetrics) send(i);  // a line that comes again is the same to the server
    };
    add(kBytesOfLine, static_cast<double>(line.bytes_sent));
    for (const auto& [name, value] : line.values) add(name, value);
  }
  send(lines.size());
}

void MlflowRun::end(RunEnd how) {
  const char* const status = how == RunEnd::finished ? "FINISHED"
                             : how == RunEnd::failed ? "FAILED"
                                                     : "KILLED";
  call("runs/update", {{"run_id", run_id_},
                       {"status", status},
                       {"end_time", milliseconds(std::chrono::system_clock::now())}});
}

}  // namespace hookline
