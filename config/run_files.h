// The names of files in a run's folder, and of what is in them, on which the launcher and the ranks agree.
#pragma once

namespace hookline {

// The config that the launcher resolved: TOML with origins as comments, and JSON, which HOOKLINE_CONFIG
// names.
inline constexpr const char* kResolvedForPeople = "resolved.toml";
inline constexpr const char* kResolvedForRanks = "resolved.json";

// A line of JSON for each Accelerator::log, and for each metric that hookline logs itself.
inline constexpr const char* kMetricsFile = "metrics.jsonl";
// In every attempt's folder except the first: the number of bytes of metrics that earlier attempts logged.
inline constexpr const char* kMetricsStartFile = "metrics_start_bytes";
inline constexpr const char* kRunSummary = "summary.json";  // what the run has measured of itself

// Made by rank 0 of a run with the tracker mlflow: the MLflow server, and the run's id on it.
inline constexpr const char* kMlflowNote = "mlflow.json";

// An empty file, which hookline's library makes when a rank has read the config that the launcher resolved.
inline constexpr const char* kConfigReadFile = "config_read";

// A metric that hookline logs at some steps if the hook compresses.
inline constexpr const char* kCompressionError = "compression_error";

// Fields that hookline adds to every line of metrics.
inline constexpr const char* kStepOfLine = "step";
inline constexpr const char* kSecondsOfLine = "seconds";  // since the run's start
inline constexpr const char* kBytesOfLine =
    "bytes_sent";  // that the rank has handed to collectives for its models so far

}  // namespace hookline
