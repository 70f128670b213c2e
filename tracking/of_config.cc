#include "tracking/of_config.h"

#include <set>
#include <string>

#include "config/print.h"
#include "config/resolve.h"
#include "config/run_files.h"
#include "tracking/json_lines.h"
#include "tracking/mlflow_run.h"
#include "tracking/tensorboard_events.h"

namespace hookline {
namespace {

TrackedRun tracked(const RunConfig& config, const std::filesystem::path& folder) {
  TrackedRun run;
  run.folder = folder;
  std::map<std::string, std::string> defaults;
  for (const ShownValue& value : shown_values(RunConfig()))
    defaults.emplace(value.key(), to_text(value.value));
  for (const ShownValue& value : shown_values(config)) {
    const auto found = defaults.find(value.key());
    const auto* const plain = std::get_if<std::string>(&value.value);
    const std::string text = to_text(value.value);
    if (found == defaults.end() || found->second != text)
      run.config.emplace(value.key(), plain ? *plain : text);
  }
  return run;
}

}  // namespace

std::unique_ptr<Trackers> trackers_of(const RunConfig& config, const std::filesystem::path& folder,
                                      Trackers::Clock::time_point start) {
  const LoggingConfig& logging = config.logging;
  const std::set<std::string> wanted(logging.trackers.begin(), logging.trackers.end());
  const std::filesystem::path lines = folder / kMetricsFile;
  auto trackers =
      std::make_unique<Trackers>(tracked(config, folder), start, Trackers::kPatience, logged_so_far(lines));
  trackers->add(std::make_unique<JsonLines>(lines));
  if (wanted.count("tensorboard")) trackers->add(std::make_unique<TensorBoardEvents>(folder));
  if (wanted.count("mlflow")) {
    MlflowOptions options;
    try {
      options = mlflow_options(logging.mlflow_tracking_uri, logging.mlflow_experiment);
    } catch (const Error& error) {
      throw ConfigError(error.what());
    }
    trackers->add(std::make_unique<MlflowRun>(std::move(options)));
  }
  return trackers;
}

}  // namespace hookline
