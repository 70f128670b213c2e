// Real TensorBoard and MLflow servers for tests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/free_port.h"
#include "support/process.h"
#include "tracking/http_client.h"

namespace hookline::testing {
namespace fs = std::filesystem;
using nlohmann::json;

inline constexpr std::chrono::minutes kServerPatience{
    5};  // minutes for a Python server to start on a busy machine

/// A Python server program that runs until destruction.
class Server {
 public:
  Server(const std::string& program, std::vector<std::string> arguments, int port, const std::string& health)
      : url_("http://127.0.0.1:" + std::to_string(port)) {
    ProcessOptions options;
    arguments.insert(arguments.end(), {"--host", "127.0.0.1", "--port", std::to_string(port)});
    options.arguments = std::move(arguments);
    // Disables telemetry, and MLflow's job runner, which would leave a queue in /dev/shm.
    options.environment = {{"MLFLOW_DISABLE_TELEMETRY", "true"},
                           {"DO_NOT_TRACK", "true"},
                           {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false"}};
    options.limit = 2 * kServerPatience;
    process_.emplace(std::string(TRACKERS_BIN) + "/" + program, options);
    const bool is_up = eventually(
        [&] {
          process_->read();
          return HttpClient({}).get(url_ + health).status == 200;
        },
        kServerPatience);
    EXPECT_TRUE(is_up) << process_->out() << process_->err();
  }

  const std::string& url() const { return url_; }

  json get(const std::string& path) {
    return answer_to(path, [&](HttpClient& client) { return client.get(url_ + path); });
  }

  json post(const std::string& path, const json& request) {
    return answer_to(path, [&](HttpClient& client) { return client.post(url_ + path, request.dump()); });
  }

 private:
  // A server that has just started or is busy may respond late, or report that its database is locked.
  json answer_to(const std::string& path, const std::function<HttpAnswer(HttpClient&)>& ask) {
    HttpOptions options;
    options.timeout = kServerPatience;
    HttpClient client(options);
    HttpAnswer answer;
    const auto is_answered = [&] {
      process_->read();
      answer = ask(client);
      return answer.status == 200;
    };
    EXPECT_TRUE(eventually(is_answered, kServerPatience))
        << path << ": HTTP " << answer.status << ' ' << answer.body << answer.problem << process_->err();
    return json::parse(answer.body, nullptr, false);
  }

  std::string url_;
  std::optional<Process> process_;
};

class Mlflow : public Server {
 public:
  explicit Mlflow(const fs::path& folder, int port = free_port())
      : Server("mlflow",
               {"server", "--backend-store-uri", "sqlite:///" + (folder / "mlflow.db").string(),
                "--default-artifact-root", (folder / "artifacts").string(), "--workers", "1"},
               port, "/health") {}

  json experiment(const std::string& name) {
    return get("/api/2.0/mlflow/experiments/get-by-name?experiment_name=" + name).at("experiment");
  }

  json runs_of(const std::string& experiment_name) {
    const std::string id = experiment(experiment_name).at("experiment_id");
    const json found = post("/api/2.0/mlflow/runs/search", {{"experiment_ids", {id}}});
    return found.contains("runs") ? found.at("runs") : json::array();
  }

  /// A metric's history as {step, value} pairs, each value as text.
  std::vector<std::pair<int, std::string>> history(const json& run, const std::string& name) {
    const std::string id = run.at("info").at("run_id");
    const json found =
        get("/api/2.0/mlflow/metrics/get-history?run_id=" + id + "&metric_key=" + HttpClient::escaped(name));
    std::vector<std::pair<int, std::string>> points;
    for (const json& each : found.value("metrics", json::array()))
      points.emplace_back(each.at("step").get<int>(), each.at("value").dump());
    return points;
  }
};

/// One server for all cases of a test program, since starting one is slow; a case that stops a server must
/// start its own. Each case finds its runs by an experiment of its own, or by their run ids.
inline Mlflow& shared_mlflow() {
  struct Shared {
    TemporaryFolder folder;
    Mlflow server{folder.path()};
  };
  static Shared shared;
  return shared.server;
}

}  // namespace hookline::testing
