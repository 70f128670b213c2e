// The keys that describe the config file rather than the run; they precede all tables.
#pragma once

#include <cstdint>
#include <string_view>

namespace hookline {

inline constexpr const char* kIncludeKey = "include";    // other files; this file's values override theirs
inline constexpr const char* kProfileTable = "profile";  // [profile.NAME.ddp]: variants
inline constexpr const char* kSchemaVersionKey = "schema_version";  // that the file was written for

/// Of the keys as they are now.
inline constexpr std::int64_t kSchemaVersion = 2;

inline bool is_about_files(std::string_view name) {
  return name == kIncludeKey || name == kProfileTable || name == kSchemaVersionKey;
}

}  // namespace hookline
