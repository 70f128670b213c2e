#include "tracking/mlflow_run.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "config/run_files.h"
#include "tracking/mlflow_name.h"
#include "tracking/mlflow_note.h"

namespace hookline {
namespace {
using Json = nlohmann::json;

// What one request may have (mlflow/utils/validation.py).
constexpr std::size_t kMostMetrics = 1000, kMostParameters = 100, kLongestValue = 6000;

Json number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

}  // namespace

MlflowRun::MlflowRun(MlflowOptions options) : options_(std::move(options)) {}

std::string MlflowRun::place() const { return "MLflow at " + without_secrets(options_.tracking_uri); }

bool MlflowRun::continue_run(const MlflowNote& note) {
  if (note.tracking_uri != without_secrets(options_.tracking_uri)) return false;
  try {
    server_->post("runs/update", {{"run_id", note.run_id}, {"status", "RUNNING"}});
  } catch (const TryAgain&) {
    throw;
  } catch (const Error&) {
    return false;  // the run was deleted on the server
  }
  run_id_ = note.run_id;
  return true;
}

void MlflowRun::make_run(const TrackedRun& run) {
  const char* const user = std::getenv("USER");
  const Json made =
      server_->post("runs/create", {{"experiment_id", server_->experiment_id(options_.experiment)},
                                    {"run_name", run.folder.filename().string()},
                                    {"start_time", mlflow_time(run.start)},
                                    {"tags",
                                     {{{"key", "mlflow.user"}, {"value", user ? user : ""}},
                                      {{"key", "mlflow.source.type"}, {"value", "LOCAL"}},
                                      {{"key", "hookline.run_folder"}, {"value", run.folder.string()}}}}});
  const Json::json_pointer id("/run/info/run_id");
  if (!made.contains(id) || !made[id].is_string()) throw Error("runs/create answers without a run_id");
  run_id_ = made[id].get<std::string>();
}

void MlflowRun::begin(const TrackedRun& run) {
  if (!server_) server_.emplace(options_);
  if (run_id_.empty()) {
    folder_ = run.folder;
    const auto note = read_mlflow_note(folder_);
    if (!note || !continue_run(*note)) make_run(run);
    if (!note || note->run_id != run_id_ || !note->told_status.empty()) keep_note("");
    parameters_.assign(run.config.begin(), run.config.end());  // sending the same values again is allowed
  }
  send_parameters();
}

void MlflowRun::keep_note(const std::string& told_status) const {
  write_mlflow_note(folder_, {without_secrets(options_.tracking_uri), run_id_, told_status});
}

void MlflowRun::send_parameters() {
  while (!parameters_.empty()) {
    const std::size_t count = std::min(parameters_.size(), kMostParameters);
    Json some = Json::array();
    for (std::size_t i = 0; i < count; ++i)
      some.push_back({{"key", name_for_mlflow(parameters_[i].first)},
                      {"value", parameters_[i].second.substr(0, kLongestValue)}});
    try {
      server_->post("runs/log-batch", {{"run_id", run_id_}, {"params", some}});
    } catch (const TryAgain&) {
      throw;
    } catch (const Error& error) {  // the server may accept metrics all the same
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
      if (!metrics.empty()) server_->post("runs/log-batch", {{"run_id", run_id_}, {"metrics", metrics}});
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
                         {"timestamp", mlflow_time(line.time)},
                         {"step", line.step}});
      if (metrics.size() == kMostMetrics) send(i);  // sending a line again changes nothing
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
  server_->post(
      "runs/update",
      {{"run_id", run_id_}, {"status", status}, {"end_time", mlflow_time(std::chrono::system_clock::now())}});
  keep_note(status);
}

}  // namespace hookline
