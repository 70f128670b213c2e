// The trackers that a config asks for.
#pragma once

#include <filesystem>
#include <memory>

#include "config/schema/run_config.h"
#include "tracking/trackers.h"

namespace hookline {

/// The trackers for metrics.jsonl in the run's folder and for what `[logging] trackers` names. If the
/// launcher has restarted the run, time and bytes continue from the last line of metrics.jsonl, for all
/// trackers. Throws ConfigError if MLflow's address is invalid.
std::unique_ptr<Trackers> trackers_of(const RunConfig& config, const std::filesystem::path& folder,
                                      Trackers::Clock::time_point start);

}  // namespace hookline
