#include "tracking/mlflow_end.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/run_files.h"
#include "tracking/mlflow_note.h"
#include "tracking/mlflow_server.h"

namespace hookline {
namespace {

// The limits of each of two requests: the user waits for them.
constexpr std::chrono::seconds kConnectTimeout{3}, kTimeout{4};

MlflowOptions options_for(const MlflowNote& note) {
  MlflowOptions options;
  try {
    options = mlflow_options("", "");
  } catch (const Error&) {  // MLFLOW_TRACKING_URI is not a server's address
  }
  if (without_secrets(options.tracking_uri) != note.tracking_uri) options.tracking_uri = note.tracking_uri;
  options.http.connect_timeout = kConnectTimeout;
  options.http.timeout = kTimeout;
  return options;
}

void set_status(const MlflowNote& note, const std::string& status) {
  MlflowServer server(options_for(note));
  const nlohmann::json found = server.get("runs/get?run_id=" + HttpClient::escaped(note.run_id));
  const nlohmann::json::json_pointer at("/run/info/status");
  const std::string now = found.contains(at) && found[at].is_string() ? found[at].get<std::string>() : "";
  // Replace only RUNNING, or the status that rank 0 set: an earlier attempt may have set its own end, or rank
  // 0 exited with an error after it had closed its trackers.
  const bool is_open = now == "RUNNING" || now == note.told_status;
  if (now == status || !is_open) return;
  server.post("runs/update", {{"run_id", note.run_id},
                              {"status", status},
                              {"end_time", mlflow_time(std::chrono::system_clock::now())}});
}

}  // namespace

std::string end_mlflow_run(const std::filesystem::path& run_folder, const std::string& status) {
  const auto note = read_mlflow_note(run_folder);
  if (!note)
    return "could not report to MLflow that the run is " + status + ": '" +
           (run_folder / kMlflowNote).string() +
           "' does not say which run it is; MLflow may show it as RUNNING forever";
  try {
    set_status(*note, status);
    return "";
  } catch (const std::exception& problem) {
    return "could not report to MLflow at " + note->tracking_uri + " that the run is " + status + ": " +
           problem.what() + "; it may show the run as RUNNING forever.\n  Set it by hand: python3 -c \"" +
           "import mlflow; mlflow.MlflowClient('" + note->tracking_uri + "').set_terminated('" +
           note->run_id + "', '" + status + "')\"";
  }
}

}  // namespace hookline
