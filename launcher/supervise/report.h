// What the launcher says about a run that failed.
#pragma once

#include <deque>
#include <filesystem>
#include <string>

#include "launcher/supervise/decide.h"

namespace hookline {

/// Names the rank, how it ended, the last lines of its standard error and where its logs are; without a
/// newline at the end.
std::string failure_report(const RootCause& cause, const std::deque<std::string>& last_error_lines,
                           const std::filesystem::path& log_folder);

}  // namespace hookline
