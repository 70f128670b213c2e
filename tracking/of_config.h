// The trackers that a config asks for.
#pragma once

#include <filesystem>
#include <memory>

#include "config/schema/run_config.h"
#include "tracking/trackers.h"

namespace hookline {

/// metrics.jsonl in the run's folder, and what `[logging] trackers` names. Where the launcher has started the run again, time and
/// bytes go on from the file's last line, to all of them. Throws ConfigError for an address of MLflow's that is none.
std::unique_ptr<Trackers> trackers_of(const RunConfig& config, const std::filesystem::path& folder,
                                      Trackers::Clock::time_point start);

}  // namespace hookline
