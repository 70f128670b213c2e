// Writing a config out again: for people (`config show`) and for the ranks (the resolved file).
#pragma once

#include <string>

#include "config/run_config.h"

namespace hookline {

/// The resolved config as TOML: every key with its value and, as a comment, its origin in a form that
/// read_resolved understands.
std::string to_toml(const RunConfig& config);

/// The same as one JSON object: {"ddp": {"comm_hook": {"value": …, "origin": "file", "where":
/// "run.toml:2:1"}}, …}.
std::string to_json(const RunConfig& config);

}  // namespace hookline
