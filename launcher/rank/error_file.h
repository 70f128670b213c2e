// What a rank that failed says of itself: torchelastic's error file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "launcher/rank/rank_stack.h"

namespace hookline {

/// Its name in the folder of a rank's logs.
inline constexpr const char* kErrorFile = "error.json";

struct RankError {
  std::string message;
  std::string type;  // of the exception, or the signal; empty if Python wrote the file
  std::optional<std::int64_t> step;
  std::optional<RankStack> stack = {};  // of the thread that received a fatal signal
};

struct ErrorFile {
  std::optional<RankError> error;
  std::string problem;  // why a file that is there gives none: "it is a named pipe, not a regular file"
};

/// Reads {"message": {"message": …, "extraInfo": {…}}}, as torchelastic and hookline's ranks write it, or
/// {"message": …}. No error if the file is missing, and a problem if it can't be read or holds anything else.
ErrorFile read_error_file(const std::filesystem::path& file);

}  // namespace hookline
