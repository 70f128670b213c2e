// What a rank that failed says of itself: torchelastic's error file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace hookline {

/// Its name in the folder of a rank's logs.
inline constexpr const char* kErrorFile = "error.json";

struct RankError {
  std::string message;
  std::string type;  // of the exception; empty if the file does not tell, as Python's
  std::optional<std::int64_t> step;
};

/// Reads {"message": {"message": …, "extraInfo": {…}}}, as torchelastic and hookline's ranks write it, or {"message": …}.
/// Nothing if the file is missing or holds anything else: a rank may have died while it wrote.
std::optional<RankError> read_error_file(const std::filesystem::path& file);

}  // namespace hookline
