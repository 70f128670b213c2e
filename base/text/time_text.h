// How a point in time is written.
#pragma once

#include <ctime>
#include <string>

namespace hookline {

/// For people: "2026-01-31 12:00:00 UTC".
std::string time_text(std::time_t time);

/// time_text() of what file_time_text() wrote; any other text as it is.
std::string time_text(const std::string& file_time);

/// In files, as ISO 8601 has it: "2026-01-31T12:00:00Z".
std::string file_time_text(std::time_t time);

/// Part of the name of a file or folder: "20260131-130000", in local time, by which people look for it.
std::string time_name(std::time_t time);

}  // namespace hookline
